// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Files: the list of the files of a cache, and the size of each. */
#include "empty.h"
#include "file.h"
#include "promote.h"
#include "state.h"

size_t hm_file_bytes(void)
{
	return sizeof(struct hm_file);
}

struct hm_file *hm_file_init(struct hm_cache *cache, void *mem, u64 size)
{
	struct hm_file *file = mem;

	if (size > HM_FILE_BLOCKS_MAX << HM_BLOCK_SHIFT)
		return NULL;
	file->cache = cache;
	hm_atomic_set(&file->size, size);
	hm_spin_init(&file->dirty_lock);
	hm_spin_init(&file->stream_lock);
	hm_spin_init(&file->node_lock);

	hm_spin_lock(&cache->files_lock);
	file->id = cache->next_id++;
	file->next = cache->files;
	if (file->next)
		file->next->prev = file;
	hm_ptr_set(&cache->files, file);
	hm_spin_unlock(&cache->files_lock);
	return file;
}

void hm_file_destroy(struct hm_file *file)
{
	struct hm_cache *cache = file->cache;

	hm_assert(hm_file_dirty_pages(file) == 0);
	hm_promote_forget(file);
	hm_empty_forget(file);
	hm_file_uncount_index(file);
	hm_spin_lock(&cache->files_lock);
	/* A walk of the list that has reached this file continues: its @next stays. */
	if (file->prev)
		hm_ptr_set(&file->prev->next, file->next);
	else
		hm_ptr_set(&cache->files, file->next);
	if (file->next)
		file->next->prev = file->prev;
	hm_spin_unlock(&cache->files_lock);
}

bool hm_file_set_size(struct hm_file *file, u64 size)
{
	if (size > HM_FILE_BLOCKS_MAX << HM_BLOCK_SHIFT)
		return false;
	hm_atomic_set(&file->size, size);
	return true;
}

u64 hm_file_size(const struct hm_file *file)
{
	return hm_atomic_read(&file->size);
}

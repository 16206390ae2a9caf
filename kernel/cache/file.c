// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Files: the table of the open files of a cache, and the size of each. */
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
	u32 i;

	if (size > HM_FILE_BLOCKS_MAX << HM_BLOCK_SHIFT)
		return NULL;
	file->cache = cache;
	hm_atomic_set(&file->size, size);
	hm_spin_init(&file->dirty_lock);
	hm_spin_init(&file->stream_lock);
	hm_spin_init(&file->node_lock);

	hm_spin_lock(&cache->files_lock);
	for (i = cache->files_free; i < HM_FILES_MAX && hm_ptr_read(&cache->files[i]); i++)
		;
	cache->files_free = i;
	if (i < HM_FILES_MAX) {
		file->id = i;
		hm_ptr_set(&cache->files[i], file);
		if (i >= hm_atomic_read(&cache->files_end))
			hm_atomic_set(&cache->files_end, i + 1);
	}
	hm_spin_unlock(&cache->files_lock);
	return i < HM_FILES_MAX ? file : NULL;
}

void hm_file_destroy(struct hm_file *file)
{
	struct hm_cache *cache = file->cache;

	hm_assert(hm_file_dirty_pages(file) == 0);
	hm_promote_forget(file);
	hm_spin_lock(&cache->files_lock);
	hm_assert(hm_ptr_read(&cache->files[file->id]) == file);
	hm_ptr_set(&cache->files[file->id], NULL);
	if (file->id < cache->files_free)
		cache->files_free = file->id;
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

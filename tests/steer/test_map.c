// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* The table of mappings, fed with events. There is no monitor, and nothing is mapped. */
#include "common.h"

#include "events.h"
#include "map.h"
#include "room.h"
#include "state.h"

#include <sys/resource.h>

#define AT ((u64)1 << 40) /* an address that no program of this machine has */
#define OTHER (2 * AT)

static void *memory_of(size_t bytes)
{
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	CHECK(at != MAP_FAILED);
	return at;
}

static struct map *send(struct event event)
{
	if (event.kind == EVENT_MAPPED || event.kind == EVENT_MOVED) {
		u64 start = event.kind == EVENT_MAPPED ? event.start : event.to;
		u64 bytes = event.kind == EVENT_MAPPED ? event.bytes : event.to_bytes;

		if (map_is_full(1))
			CHECK(map_add_block(memory_of(sizeof(struct map_block))));
		event.room_bytes = event.rooms ? map_rooms(event.start, event.start + event.bytes,
							   start, bytes) :
						 map_room(start, bytes);
		event.room = memory_of(event.room_bytes);
	}
	return map_follow(&event);
}

static struct map *send_mapped(u64 start, u64 bytes, u64 offset)
{
	struct map *map =
		send((struct event){ EVENT_MAPPED, .start = start, .bytes = bytes, .offset = offset,
				     .prot = PROT_READ, .flags = MAP_SHARED });

	CHECK(map && map->start == start && map->bytes == bytes);
	return map;
}

/* As if the monitor had given the advice. */
static void give(struct map *map, enum hm_mode mode)
{
	u32 i;

	map_set_mode(map, map->advisor.first, map->advisor.end, mode);
	for (i = 0; i < map->npieces; i++)
		map->piece[i].given = mode;
	map->advised = true;
	map->changed = false;
	map_publish(map);
}

static struct map *find(u64 start)
{
	struct map *map;

	for_each_map(map)
		if (map->start == start)
			return map;
	return NULL;
}

/* The mapping is left alone, and its advice is to be taken back. */
static bool is_orphan(const struct map *map, u64 bytes)
{
	return map && map->orphan && map->bytes == bytes && map->changed &&
	       map->piece[0].mode == HM_MODE_NORMAL && map->piece[0].given == HM_MODE_RANDOM;
}

static void failed_unmap_leaves_no_advice(void)
{
	give(send_mapped(AT, SIZE, 0), HM_MODE_RANDOM);
	send((struct event){ EVENT_UNMAPPING, .start = AT, .bytes = SIZE, .id = 1 });
	CHECK(!map_count());
	send((struct event){ EVENT_NOT_UNMAPPED, .id = 1 });
	CHECK(map_count() == 1 && is_orphan(find(AT), SIZE));
	map_drop(find(AT));
	/* A part, and a call that has not failed. */
	give(send_mapped(AT, SIZE, 0), HM_MODE_RANDOM);
	send((struct event){ EVENT_UNMAPPING, .start = AT + SIZE / 2, .bytes = 8 * MB, .id = 2 });
	send((struct event){ EVENT_UNMAPPING, .start = AT, .bytes = 8 * MB, .id = 3 });
	send((struct event){ EVENT_NOT_UNMAPPED, .id = 3 });
	CHECK(is_orphan(find(AT), 8 * MB) && !find(AT + SIZE / 2));
}

/* mremap() has moved a mapping, and another thread maps a file there before that is known. */
static void moved_mapping_is_not_confused(void)
{
	struct map *map;

	give(send_mapped(AT, SIZE, 16 * MB), HM_MODE_RANDOM);
	send((struct event){ EVENT_MOVING, .start = AT, .bytes = SIZE });
	send_mapped(AT, SIZE / 2, 48 * MB);
	send((struct event){ EVENT_MOVED, .start = AT, .bytes = SIZE, .to = OTHER,
			     .to_bytes = SIZE });
	CHECK(map_count() == 2);
	map = find(OTHER);
	CHECK(map && map->offset == 16 * MB && map->piece[0].given == HM_MODE_RANDOM);
	map = find(AT);
	CHECK(map && map->bytes == SIZE / 2 && map->offset == 48 * MB && !map->advised);
}

/*
 * mremap() has moved a mapping. Another thread gets its old place for other memory, and unmaps that
 * before the move is known.
 */
static void moved_mapping_is_not_cut(void)
{
	const struct event moved = { EVENT_MOVED, .start = AT, .bytes = SIZE, .to = OTHER,
				     .to_bytes = SIZE };
	struct map *map;

	give(send_mapped(AT, SIZE, 0), HM_MODE_RANDOM);
	send((struct event){ EVENT_MOVING, .start = AT, .bytes = SIZE });
	send((struct event){ EVENT_UNMAPPING, .start = AT, .bytes = SIZE / 2 });
	send(moved);
	map = find(OTHER);
	CHECK(map && map->bytes == SIZE && map->piece[0].given == HM_MODE_RANDOM);
	CHECK(map_count() == 1);
	map_drop(map);
	/* It is not steered any more, and its advice is to be taken back. */
	map = send_mapped(AT, SIZE, 0);
	give(map, HM_MODE_RANDOM);
	send((struct event){ EVENT_MOVING, .start = AT, .bytes = SIZE });
	map_leave(map);
	send((struct event){ EVENT_UNMAPPING, .start = AT, .bytes = SIZE });
	send(moved);
	CHECK(map_count() == 1 && is_orphan(find(OTHER), SIZE));
}

static bool is_any_moving(void)
{
	struct map *map;

	for_each_map(map)
		if (map->moving)
			return true;
	return false;
}

/*
 * Two threads move a part of a mapping each. The monitor must give no advice at the old place of the
 * second one until that move has ended.
 */
static void moves_of_a_mapping_end_one_by_one(void)
{
	struct event a = { EVENT_MOVING, .start = AT, .bytes = SIZE / 4, .to = OTHER,
			   .to_bytes = SIZE / 4 };
	struct event b = { EVENT_MOVING, .start = AT + SIZE / 2, .bytes = SIZE / 4,
			   .to = OTHER + SIZE, .to_bytes = SIZE / 4 };

	give(send_mapped(AT, SIZE, 0), HM_MODE_RANDOM);
	send(a);
	send(b);
	a.kind = EVENT_STAYED;
	send(a);
	CHECK(find(AT)->moving);
	a.kind = EVENT_MOVING;
	send(a);
	a.kind = EVENT_MOVED;
	send(a);
	CHECK(find(OTHER) && !find(OTHER)->moving && find(AT + SIZE / 4)->moving);
	b.kind = EVENT_MOVED;
	send(b);
	CHECK(find(OTHER + SIZE) && !is_any_moving());
	/* Both rests of the mapping. */
	CHECK(find(AT + SIZE / 4) && find(AT + 3 * (SIZE / 4)) && map_count() == 4);
}

/* The second thread moves a part of the smaller rest, which is not steered any more. */
static void move_of_the_smaller_rest_ends(void)
{
	struct event a = { EVENT_MOVING, .start = AT + SIZE / 4, .bytes = SIZE / 8, .to = OTHER,
			   .to_bytes = SIZE / 8 };
	struct event b = { EVENT_MOVING, .start = AT, .bytes = SIZE / 8, .to = OTHER + SIZE,
			   .to_bytes = SIZE / 8 };

	give(send_mapped(AT, SIZE, 0), HM_MODE_RANDOM);
	send(a);
	send(b);
	a.kind = EVENT_MOVED;
	send(a);
	CHECK(find(AT)->moving && find(AT)->orphan && !find(AT + 3 * (SIZE / 8))->moving);
	b.kind = EVENT_MOVED;
	send(b);
	CHECK(is_orphan(find(OTHER + SIZE), SIZE / 8) && !is_any_moving());
	CHECK(is_orphan(find(AT + SIZE / 8), SIZE / 8));
}

/* Since Linux 6.17, a call of mremap() moves all mappings of a range. */
static void all_mappings_of_a_range_move(void)
{
	struct event move = { EVENT_MOVING, .start = AT, .bytes = 2 * SIZE, .to = OTHER,
			      .to_bytes = 2 * SIZE };
	struct map *map;

	give(send_mapped(AT, SIZE, 0), HM_MODE_HUGE);
	give(send_mapped(AT + SIZE, SIZE, 16 * MB), HM_MODE_RANDOM);
	send(move);
	move.kind = EVENT_MOVED;
	send(move);
	map = find(OTHER);
	CHECK(map && map->bytes == SIZE && !map->orphan && map->piece[0].given == HM_MODE_HUGE);
	map = find(OTHER + SIZE);
	CHECK(is_orphan(map, SIZE) && map->offset == 16 * MB);
	CHECK(map_count() == 2 && !events_lost());
	map_drop(map);
	map_drop(find(OTHER));
	/* The first of them is not steered. The range ends within the second one. */
	give(send_mapped(AT + SIZE, SIZE, 16 * MB), HM_MODE_RANDOM);
	move.kind = EVENT_MOVING;
	move.bytes = move.to_bytes = SIZE + SIZE / 2;
	send(move);
	move.kind = EVENT_MOVED;
	send(move);
	CHECK(is_orphan(find(OTHER + SIZE), SIZE / 2));
	map = find(AT + SIZE + SIZE / 2);
	CHECK(map && !map->moving && map->bytes == SIZE / 2 && map_count() == 2);
}

/* The event has a room for each of them, wherever their regions begin. */
static void moved_mappings_stay_steered(void)
{
	const u64 bytes = SIZE + PAGE;
	struct event move = { EVENT_MOVING,	  .start = AT,		 .bytes = 3 * bytes,
			      .to = OTHER - PAGE, .to_bytes = 3 * bytes, .rooms = true };
	struct map *map;
	u64 i;

	for (i = 0; i < 3; i++)
		give(send_mapped(AT + i * bytes, bytes, i * SIZE), HM_MODE_RANDOM);
	find(AT + bytes)->piece[0].given = HM_MODE_HUGE;
	send((struct event){ EVENT_HINT, .start = AT + 2 * bytes, .bytes = bytes,
			     .advice = MADV_RANDOM });
	send(move);
	move.kind = EVENT_MOVED;
	send(move);
	CHECK(map_count() == 3 && !events_lost());
	for (i = 0; i < 3; i++) {
		map = find(move.to + i * bytes);
		CHECK(map && !map->orphan && map->bytes == bytes && map->offset == i * SIZE);
		CHECK(map->piece[0].given == (i == 1 ? HM_MODE_HUGE : HM_MODE_RANDOM));
		CHECK(map_is_hinted(map) == (i == 2) && map->shared);
		CHECK(map->room == map_room(map->start, bytes));
		/* No room overlaps another one. */
		CHECK(!map->seen[0] && !map->seen[map->room / sizeof(*map->seen) - 1]);
		memset(map->seen, 1, map->room);
	}
	send((struct event){ EVENT_UNMAPPING, .start = move.to, .bytes = 3 * bytes });
	CHECK(!map_count());
}

/* Each mapping that moves needs an entry for its new place, and gives that of its old place back. */
static void moved_mappings_need_one_free_entry(void)
{
	struct event move = { EVENT_MOVING, .start = AT,	  .bytes = 3 * SIZE,
			      .to = OTHER,  .to_bytes = 3 * SIZE, .rooms = true };
	struct map other = { .start = PAGE, .bytes = PAGE }, *map, *last = NULL;
	u64 i;

	for (i = 0; i < 3; i++)
		send_mapped(AT + i * SIZE, SIZE, 0);
	while ((map = map_take_entry(&other)))
		last = map;
	map_drop(last);
	send(move);
	move.kind = EVENT_MOVED;
	send(move);
	for (i = 0; i < 3; i++)
		CHECK(find(OTHER + i * SIZE) && !find(AT + i * SIZE));
}

/* Two mappings of one area move, and the call changes the length of the range. */
static void move_two(u64 to, u64 bytes, bool rooms)
{
	struct event move = { EVENT_MOVING, .start = AT,       .bytes = 2 * SIZE,
			      .to = to,	    .to_bytes = bytes, .rooms = rooms };

	give(send_mapped(AT, SIZE, 0), HM_MODE_RANDOM);
	give(send_mapped(AT + SIZE, SIZE, SIZE), HM_MODE_RANDOM);
	send(move);
	move.kind = EVENT_MOVED;
	send(move);
}

static void last_mapping_of_a_range_grows(void)
{
	move_two(OTHER, 2 * SIZE + MB, false);
	CHECK(find(OTHER)->bytes == SIZE && is_orphan(find(OTHER + SIZE), SIZE + MB));
	CHECK(map_count() == 2);
	send((struct event){ EVENT_UNMAPPING, .start = OTHER, .bytes = 3 * SIZE });
	move_two(AT, 2 * SIZE + MB, false);
	CHECK(find(AT)->bytes == SIZE && !find(AT)->orphan && !find(AT)->moving);
	CHECK(is_orphan(find(AT + SIZE), SIZE + MB) && map_count() == 2);
	/* With a room for each of them, both are steered. */
	send((struct event){ EVENT_UNMAPPING, .start = AT, .bytes = 3 * SIZE });
	move_two(AT, 2 * SIZE + MB, true);
	CHECK(find(AT)->bytes == SIZE && !find(AT)->orphan && map_count() == 2);
	CHECK(find(AT + SIZE)->bytes == SIZE + MB && !find(AT + SIZE)->orphan);
}

static void moved_range_is_shortened(void)
{
	move_two(OTHER, SIZE + MB, false);
	CHECK(find(OTHER)->bytes == SIZE && is_orphan(find(OTHER + SIZE), MB));
	CHECK(map_count() == 2);
	send((struct event){ EVENT_UNMAPPING, .start = OTHER, .bytes = 3 * SIZE });
	move_two(OTHER, SIZE / 2, false);
	CHECK(find(OTHER)->bytes == SIZE / 2 && map_count() == 1);
}

/* The call shortens a range of two mappings in place, so the second one is gone. */
static void shortened_range_is_compared(void)
{
	struct event move = { EVENT_MOVING, .start = AT, .bytes = 2 * SIZE, .to = AT,
			      .to_bytes = SIZE };

	give(send_mapped(AT, SIZE, 0), HM_MODE_HUGE);
	give(send_mapped(AT + SIZE, SIZE, 16 * MB), HM_MODE_RANDOM);
	send(move);
	move.kind = EVENT_MOVED;
	send(move);
	CHECK(find(AT) && find(AT)->piece[0].given == HM_MODE_HUGE);
	CHECK(find(AT + SIZE) && events_lost() == EVENTS_LOST);
}

/* Another thread unmaps a mapping just before mremap(), which fails then. */
static void mapping_that_stays_is_compared(void)
{
	send_mapped(AT, SIZE, 0);
	send((struct event){ EVENT_MOVING, .start = AT, .bytes = SIZE });
	send((struct event){ EVENT_UNMAPPING, .start = AT, .bytes = SIZE });
	CHECK(!events_lost());
	send((struct event){ EVENT_STAYED, .start = AT, .bytes = SIZE });
	CHECK(events_lost() == EVENTS_LOST);
	map_recover(EVENTS_LOST);
	CHECK(!map_count());
}

/*
 * Another thread loses an event while a mapping moves. The monitor must give no advice at the old
 * place: the kernel may have moved the mapping, and other memory may be there.
 */
static void lost_event_ends_no_move(void)
{
	give(send_mapped(AT, SIZE, 0), HM_MODE_RANDOM);
	send((struct event){ EVENT_MOVING, .start = AT, .bytes = SIZE });
	map_recover(EVENTS_LOST);
	CHECK(find(AT) && find(AT)->moving);
	send((struct event){ EVENT_MOVED, .start = AT, .bytes = SIZE, .to = OTHER,
			     .to_bytes = SIZE });
	CHECK(map_count() == 1 && find(OTHER)->piece[0].given == HM_MODE_RANDOM);
	/* The lost event may be the one that ends the move. */
	send((struct event){ EVENT_MOVING, .start = OTHER, .bytes = SIZE });
	map_recover(EVENTS_LOST | EVENTS_LOST_MOVE);
	CHECK(!map_count());
}

static char *map_part(size_t bytes)
{
	char *at = mmap(NULL, bytes, PROT_READ, MAP_SHARED, open_file(O_RDONLY), 0);

	CHECK(at != MAP_FAILED);
	return at;
}

/*
 * The monitor has ended the move of a mapping, so its new place has unknown advice of the monitor.
 * The advice in a file that was never steered comes from the program, and stays.
 */
static void only_ended_moves_leave_advice(void)
{
	u64 to = (uintptr_t)map_part(2 * SIZE), part = SIZE / 4;
	struct event moved = { EVENT_MOVED, .start = AT,      .bytes = part,
			       .to = to,    .to_bytes = part, .advised = true };
	const struct event moving = { EVENT_MOVING, .start = AT, .bytes = SIZE };

	send_mapped(AT, SIZE, 0);
	send(moving);
	map_recover(EVENTS_LOST_MOVE);
	CHECK(!map_count());
	/* Two threads have moved a part each. */
	send(moved);
	moved.start += part;
	moved.to += part;
	send(moved);
	CHECK(map_count() == 2 && find(to)->orphan && find(to)->piece[0].given);
	CHECK(find(to + part)->orphan);
	/* Other files move later, from other places and from this one. */
	moved.to += part;
	moved.start = OTHER;
	send(moved);
	moved.start = AT;
	send(moved);
	send(moving);
	moved.start = AT + 2 * part;
	send(moved);
	CHECK(map_count() == 2);
}

/* The first of the two events was lost, so the kernel's list of areas is read after all events. */
static void moved_mapping_leaves_its_place(void)
{
	send_mapped(AT, SIZE, 0);
	send((struct event){ EVENT_MOVED, .start = AT, .bytes = SIZE, .to = OTHER,
			     .to_bytes = SIZE });
	CHECK(map_count() == 1 && events_lost() == EVENTS_LOST);
	map_recover(EVENTS_LOST);
	CHECK(!map_count());
	/* Memory that is not steered moves. */
	send((struct event){ EVENT_MOVED, .start = AT, .bytes = SIZE, .to = OTHER,
			     .to_bytes = SIZE });
	CHECK(!map_count() && !events_lost());
}

static void moved_pages_leave_the_mapping(void)
{
	give(send_mapped(AT, SIZE, 0), HM_MODE_RANDOM);
	send((struct event){ EVENT_MOVING, .start = AT, .bytes = SIZE });
	send((struct event){ EVENT_MOVED, .start = AT, .bytes = SIZE, .to = OTHER, .to_bytes = SIZE,
			     .flags = MREMAP_MAYMOVE | MREMAP_DONTUNMAP });
	CHECK(map_count() == 2 && find(AT) && find(OTHER));
	CHECK(find(AT)->piece[0].given == HM_MODE_RANDOM && !find(AT)->moving);
}

/* There is no memory for the new place. Another thread has mapped a file at the old place. */
static void moved_mapping_without_room_is_forgotten(void)
{
	struct event moved = { EVENT_MOVED, .start = AT, .bytes = SIZE, .to = OTHER,
			       .to_bytes = SIZE };

	send_mapped(AT, SIZE, 0);
	send((struct event){ EVENT_MOVING, .start = AT, .bytes = SIZE });
	send_mapped(AT, SIZE / 2, 48 * MB);
	map_follow(&moved);
	CHECK(map_count() == 1 && find(AT)->offset == 48 * MB);
	send((struct event){ EVENT_MOVING, .start = AT, .bytes = SIZE });
	moved.flags = MREMAP_MAYMOVE | MREMAP_DONTUNMAP;
	map_follow(&moved);
	CHECK(!map_count());
}

/* The program has given a hint for all of a mapping, and the monitor has replaced it. */
static struct map *send_replaced(int advice)
{
	struct map *map = send_mapped(AT, SIZE, 0);

	send((struct event){ EVENT_HINT, .start = AT, .bytes = SIZE, .advice = advice });
	CHECK(map_is_hinted(map) && map->hint[0].advice == advice);
	map_replace_hint(map);
	CHECK(!map->nhints && map->replaced == advice);
	give(map, HM_MODE_HUGE);
	return map;
}

static bool all_are_normal(const struct map *map)
{
	u32 i;

	for (i = 0; i < map->npieces && map->piece[i].mode == HM_MODE_NORMAL; i++)
		;
	return i == map->npieces;
}

/* The policy has no advice in the range of a hint that counts again. */
static void hint_for_a_part_ends_the_replacement(void)
{
	struct map *map = send_replaced(MADV_SEQUENTIAL);

	send((struct event){ EVENT_HINT, .start = AT, .bytes = 2 * MB, .advice = MADV_RANDOM });
	CHECK(map->nhints == 2 && map->hint[0].advice == MADV_SEQUENTIAL && map->hint[0].again);
	CHECK(map->hint[0].start == REGION_PAGES && map->hint[0].end == map->advisor.end);
	CHECK(all_are_normal(map) && !map->replaced);
}

/* A hint of the other kind does not end the first one, which still covers all of the mapping. */
static void hint_of_the_other_kind_ends_the_replacement(void)
{
	struct map *map = send_replaced(MADV_SEQUENTIAL);

	send((struct event){ EVENT_HINT, .start = AT, .bytes = 2 * MB, .advice = MADV_HUGEPAGE });
	CHECK(map->nhints == 2 && map_hint_is_due(map) && all_are_normal(map));
	CHECK(map->hint[1].advice == MADV_HUGEPAGE && map->hint[1].end == REGION_PAGES);
}

static u32 due_hints(const struct map *map)
{
	u32 n = 0, i;

	for (i = 0; i < map->nhints; i++)
		n += map->hint[i].again;
	return n;
}

static void send_hint(u64 bytes, int advice)
{
	send((struct event){ EVENT_HINT, .start = AT, .bytes = bytes, .advice = advice });
}

/* The monitor takes both hints at once, and must give both of them again. */
static void hint_of_the_other_kind_ends_no_hint(void)
{
	struct map *map = send_mapped(AT, SIZE, 0);

	give(map, HM_MODE_CHUNK);
	send_hint(2 * MB, MADV_NOHUGEPAGE);
	send_hint(SIZE, MADV_RANDOM);
	CHECK(map->nhints == 2 && due_hints(map) == 2 && map_is_hinted(map));
	send_hint(SIZE, MADV_HUGEPAGE);
	CHECK(map->nhints == 2 && due_hints(map) == 2 && map_is_hinted(map));
	/* MADV_NORMAL ends only the hint for the order of accesses. */
	send_hint(SIZE, MADV_NORMAL);
	CHECK(map->nhints == 1 && map->hint[0].advice == MADV_HUGEPAGE && map_is_hinted(map));
}

/* The monitor does not know the hints beyond the table, but their kinds. */
static void hint_ends_unknown_hints_of_its_kind(void)
{
	struct map *map = send_mapped(AT, SIZE, 0);

	send_hint(MB, MADV_RANDOM);
	map_hint_all(map, 0);
	send_hint(SIZE, MADV_NORMAL);
	CHECK(!map->nhints);
	send_hint(MB, MADV_HUGEPAGE);
	map_hint_all(map, 0);
	send_hint(SIZE, MADV_NORMAL);
	CHECK(map_is_hinted(map));
}

/* A hint for the whole mapping takes the place of a lost one. */
static void hint_ends_a_lost_hint(void)
{
	struct map *map = send_mapped((uintptr_t)map_part(SIZE), SIZE, 0);
	struct event hint = { EVENT_HINT, .start = map->start, .bytes = SIZE };

	map_recover(EVENTS_LOST_HINT * hint_kind(MADV_RANDOM));
	CHECK(map_is_hinted(map));
	hint.advice = MADV_NORMAL;
	send(hint);
	CHECK(!map->nhints);
	map_recover(EVENTS_LOST_HINT * hint_kind(MADV_HUGEPAGE));
	send(hint);
	CHECK(map_is_hinted(map));
	hint.advice = MADV_HUGEPAGE;
	send(hint);
	CHECK(map->nhints == 1 && map->hint[0].advice == MADV_HUGEPAGE);
	/* If both kinds were lost, a hint of each kind must come. */
	map_recover(EVENTS_LOST_HINT * (hint_kind(MADV_RANDOM) | hint_kind(MADV_HUGEPAGE)));
	send(hint);
	CHECK(map_whole_hint(map)->advice == 0);
	hint.advice = MADV_RANDOM;
	send(hint);
	CHECK(map->nhints == 2 && map->hint[0].advice && map->hint[1].advice);
}

/* The program gives hints of both kinds in more ranges than a mapping can have. */
static void hint_ends_hints_beyond_the_table(void)
{
	struct map *map = send_mapped(AT, SIZE, 0);
	u32 i;

	for (i = 0; i < MAP_HINTS; i++)
		send((struct event){ EVENT_HINT, .start = AT + 2 * i * MB, .bytes = MB,
				     .advice = i % 2 ? MADV_RANDOM : MADV_NOHUGEPAGE });
	send((struct event){ EVENT_HINT, .start = AT + 2 * i * MB, .bytes = MB,
			     .advice = MADV_RANDOM });
	CHECK(map_is_hinted(map));
	send_hint(SIZE / 2, MADV_HUGEPAGE);
	CHECK(map_hinted(map, map->advisor.end - 1, map->advisor.end));
	send_hint(SIZE, MADV_HUGEPAGE);
	CHECK(map_is_hinted(map));
	send_hint(SIZE, MADV_RANDOM);
	CHECK(map->nhints == 2 && map->hint[0].advice == MADV_HUGEPAGE &&
	      map->hint[1].advice == MADV_RANDOM);
	/* Only the hint for huge pages is left. */
	send_hint(SIZE, MADV_NORMAL);
	CHECK(map->nhints == 1 && map->hint[0].advice == MADV_HUGEPAGE);
}

/* The cost of a hint is still judged, unless the program has given hints of both kinds. */
static void moved_mapping_keeps_the_kinds_of_its_hints(void)
{
	send_mapped(AT, SIZE, 0);
	send((struct event){ EVENT_HINT, .start = AT, .bytes = SIZE, .advice = MADV_RANDOM });
	send((struct event){ EVENT_MOVING, .start = AT, .bytes = SIZE });
	send((struct event){ EVENT_MOVED, .start = AT, .bytes = SIZE, .to = OTHER,
			     .to_bytes = SIZE });
	CHECK(map_is_hinted(find(OTHER)));
	CHECK(find(OTHER)->hint_kinds == hint_kind(MADV_RANDOM));
}

/*
 * The program gives more hints than a mapping can have, so the policy leaves all of it alone. The
 * kernel still gets the hints again that it may have got before the monitor's advice.
 */
static void hints_beyond_the_table_stay_due(void)
{
	struct map *map = send_mapped(AT, SIZE, 0);
	u32 i;

	for (i = 0; i < 2 * MAP_HINTS; i++) {
		if (i == MAP_HINTS - 4)
			give(map, HM_MODE_RANDOM);
		send((struct event){ EVENT_HINT, .start = AT + 2 * i * MB, .bytes = MB,
				     .advice = MADV_RANDOM });
		if (i == MAP_HINTS)
			CHECK(map_is_hinted(map) && due_hints(map) == 5);
	}
	CHECK(map_is_hinted(map) && all_are_normal(map) && due_hints(map) == MAP_HINTS - 1);
}

/*
 * mremap() has moved a mapping. Another thread maps memory at the old place, and gives hints for it,
 * before the move is known. The hints of the moved mapping stay.
 */
static void hint_beside_a_move_belongs_to_the_old_place(void)
{
	struct event move = { EVENT_MOVING, .start = AT, .bytes = SIZE, .to = OTHER,
			      .to_bytes = SIZE };
	struct map *map = send_mapped(AT, SIZE, 0);

	give(map, HM_MODE_RANDOM);
	send_hint(SIZE, MADV_NOHUGEPAGE);
	map->hint[0].again = false;
	send(move);
	send_hint(SIZE, MADV_SEQUENTIAL);
	send_hint(SIZE, MADV_HUGEPAGE);
	move.kind = EVENT_MOVED;
	send(move);
	map = find(OTHER);
	CHECK(map && map->nhints == 1 && map->hint[0].advice == MADV_NOHUGEPAGE);
	CHECK(!due_hints(map) && map->hint_kinds == hint_kind(MADV_NOHUGEPAGE));
}

/* The mapping is advised. The call fails, grows the mapping in place, or moves another part of it. */
static void hint_beside_a_move_is_given_again(void)
{
	struct event end = { EVENT_STAYED, .start = AT, .bytes = SIZE / 2, .to = AT,
			     .to_bytes = SIZE };
	const enum event_kind kinds[] = { EVENT_STAYED, EVENT_MOVED, EVENT_MOVED };
	struct map *map;
	u32 i;

	for (i = 0; i < COUNT(kinds); i++) {
		end.kind = kinds[i];
		end.to = i == 2 ? OTHER : AT;
		end.to_bytes = i == 2 ? SIZE / 2 : SIZE;
		end.bytes = i == 1 ? SIZE : SIZE / 2;
		give(send_mapped(AT, SIZE, 0), HM_MODE_RANDOM);
		send((struct event){ EVENT_MOVING, .start = AT, .bytes = end.bytes });
		send_hint(SIZE, MADV_SEQUENTIAL);
		send(end);
		map = find(i == 2 ? AT + SIZE / 2 : AT);
		CHECK(map && !map->moving && map->nhints == 1 && due_hints(map) == 1);
		CHECK(map_is_hinted(map) && map->hint[0].advice == MADV_SEQUENTIAL);
		CHECK(!find(OTHER) || !find(OTHER)->nhints);
		send((struct event){ EVENT_UNMAPPING, .start = AT, .bytes = SIZE });
		CHECK(map_count() == (i == 2));
	}
}

/* More hints than the monitor can keep come during a move, and a hint is lost. */
static void hints_beside_a_move_are_not_lost(void)
{
	struct map *map = send_mapped(AT, SIZE, 0);
	struct event move = { EVENT_MOVING, .start = AT, .bytes = SIZE };
	u32 i;

	give(map, HM_MODE_RANDOM);
	send(move);
	for (i = 0; i < MAP_LATE_HINTS; i++)
		send_hint(2 * MB, MADV_HUGEPAGE);
	CHECK(!map->nhints);
	send_hint(SIZE, MADV_SEQUENTIAL);
	move.kind = EVENT_STAYED;
	send(move);
	CHECK(map->nhints == 2 && due_hints(map) == 2 && map_is_hinted(map));
	send_hint(SIZE, MADV_NORMAL);
	CHECK(!map_is_hinted(map));
	/* The lost hint was given later than MADV_NORMAL. */
	move.kind = EVENT_MOVING;
	send(move);
	send_hint(SIZE, MADV_NORMAL);
	map_recover(EVENTS_LOST_HINT * hint_kind(MADV_RANDOM));
	move.kind = EVENT_STAYED;
	send(move);
	CHECK(map_whole_hint(map) && map_whole_hint(map)->kinds & hint_kind(MADV_RANDOM));
}

/* The program unmaps the range before the last 2 MB, for which a hint is due. */
static void due_hint_of_a_rest_is_kept(void)
{
	struct map *map = send_mapped(AT, SIZE, 0);

	give(map, HM_MODE_NORMAL);
	send((struct event){ EVENT_HINT, .start = AT + SIZE - 2 * MB, .bytes = 2 * MB,
			     .advice = MADV_RANDOM });
	send((struct event){ EVENT_UNMAPPING, .start = AT + SIZE - 4 * MB, .bytes = 2 * MB });
	map = find(AT + SIZE - 2 * MB);
	CHECK(map && map->orphan && due_hints(map) == 1 && due_hints(find(AT)) == 0);
}

/* Hints were lost, so the hint that the monitor has replaced counts again. */
static void lost_hint_ends_the_replacement(void)
{
	struct map *map = send_replaced(MADV_SEQUENTIAL);

	map_hint_all(map, 0);
	CHECK(map_is_hinted(map) && due_hints(map) == 1 && all_are_normal(map));
}

/* The kernel did not take the advice that replaces a hint. */
static void failed_replacement_leaves_no_mode(void)
{
	struct map *map = send_mapped(AT, SIZE, 0);

	send((struct event){ EVENT_HINT, .start = AT, .bytes = SIZE, .advice = MADV_SEQUENTIAL });
	map->advisor.mode = HM_MODE_RANDOM;
	map_replace_hint(map);
	CHECK(!all_are_normal(map));
	map_restore_hint(map);
	CHECK(all_are_normal(map) && map_hint_is_due(map));
}

static u32 areas(void)
{
	struct map *map;
	u32 n = 0;

	for_each_map(map)
		n += map->npieces - 1;
	return n;
}

/* A process may have 65,530 areas, and needs them itself. */
static void areas_are_few(void)
{
	struct map *map;
	u32 i, k;

	for (i = 0; i < 200; i++) {
		map = send_mapped(AT + 2 * i * SIZE, SIZE, 0);
		for (k = 0; k < 20; k++)
			map_set_mode(map, 2 * k * REGION_PAGES, (2 * k + 1) * REGION_PAGES,
				     HM_MODE_HUGE);
	}
	CHECK(areas() <= MAP_AREAS && areas() > MAP_AREAS / 2);
	/* One mode for all of it is always possible. */
	map_set_mode(map, map->advisor.first, map->advisor.end, HM_MODE_RANDOM);
	CHECK(map->npieces == 1 && map->piece[0].mode == HM_MODE_RANDOM);
	/* Others may have the areas of a mapping that has ended. */
	send((struct event){ EVENT_UNMAPPING, .start = AT, .bytes = 100 * SIZE });
	i = areas();
	map_set_mode(map, 0, REGION_PAGES, HM_MODE_HUGE);
	CHECK(areas() == i + 1);
}

/* The table has thousands of entries, and the page is copied at each start of the monitor. */
static void entries_are_small(void)
{
	CHECK(sizeof(struct map) <= PAGE && sizeof(struct steer_page) <= 28 * PAGE);
	CHECK(sizeof(struct event) <= 128);
}

static void table_grows(void)
{
	u32 i;

	for (i = 0; i < 1000; i++)
		send_mapped(AT + 2 * i * SIZE, SIZE, 0);
	CHECK(map_count() == 1000 && map_overlaps(AT + 1998 * SIZE, PAGE));
	for (i = 0; i < 1000; i++)
		send((struct event){ EVENT_UNMAPPING, .start = AT + 2 * i * SIZE, .bytes = SIZE });
	CHECK(!map_count() && !map_limit());
}

/* Most rooms need no system call. They hold zeros. */
static void rooms_are_used_again(void)
{
	struct room_slots *slots = memory_of(sizeof(*slots));
	char *room[ROOM_SLOTS], *other;
	u32 i, k;

	room_use(slots);
	for (k = 0; k < 2; k++) {
		for (i = 0; i < ROOM_SLOTS; i++) {
			room[i] = room_take(ROOM_SLOT_BYTES);
			CHECK(room[i] >= slots->slot[0] && room[i] < slots->slot[ROOM_SLOTS]);
			CHECK(!room[i][0] && !room[i][ROOM_SLOT_BYTES - 1]);
			memset(room[i], (int)i + 1, ROOM_SLOT_BYTES);
		}
		/* There are no more, and none of them was given twice. */
		other = room_take(PAGE);
		CHECK(other && (other < slots->slot[0] || other >= slots->slot[ROOM_SLOTS]));
		room_give_back(other, PAGE, PAGE);
		for (i = 0; i < ROOM_SLOTS; i++) {
			CHECK(room[i][0] == (char)(i + 1) &&
			      room[i][ROOM_SLOT_BYTES - 1] == (char)(i + 1));
			room_give_back(room[i], ROOM_SLOT_BYTES, ROOM_SLOT_BYTES);
		}
	}
	other = room_take(ROOM_SLOT_BYTES + 1);
	CHECK(other && (other < slots->slot[0] || other >= slots->slot[ROOM_SLOTS]));
}

static bool may_have_advice(u64 start, u64 bytes)
{
	struct map_parts parts = {};

	map_find_parts(&parts, start, start + bytes);
	return map_parts_advised(&parts);
}

/* Only events that move advice, or bring it back, count for a range that is not in the table. */
static void waiting_events_bring_advice(void)
{
	struct event event = { .kind = EVENT_HINT };

	state_set(RUNNING);
	CHECK(events_begin() && map_add_block(memory_of(sizeof(struct map_block))));
	CHECK(event_put(&event) && events_pending() && !may_have_advice(AT, SIZE));
	event = (struct event){ EVENT_MOVED, .to = AT, .to_bytes = SIZE };
	CHECK(event_put(&event) && !may_have_advice(AT, SIZE));
	event.advised = true;
	CHECK(event_put(&event) && may_have_advice(AT, SIZE));
	while (event_take(&event))
		CHECK(may_have_advice(AT, SIZE));
	events_done();
	CHECK(!may_have_advice(AT, SIZE));
	/* If the event is lost, the thread that put it takes the advice back. */
	while (event_put(&(struct event){ .kind = EVENT_HINT }))
		;
	event.advised = true;
	CHECK(!event_put(&event) && !may_have_advice(AT, SIZE));
}

static bool overlaps(const char *at, size_t bytes, const char *hole, size_t hole_bytes)
{
	return at < hole + hole_bytes && hole < at + bytes;
}

/*
 * The program may map a hole again by MAP_FIXED, so no room may lie there. The holes are larger
 * than all rooms together: without a hint, the kernel would fill one of them.
 */
static void rooms_lie_in_no_hole(void)
{
	const size_t hole = 256 * MB, room = MB;
	char *at =
		mmap(NULL, 3 * hole, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	char *made, *before = NULL;
	void *once = NULL;
	u32 i;

	CHECK(at != MAP_FAILED && !munmap(at + hole, hole));
	for (i = 0; i < 128; i++) {
		made = i % 2 ? room_map(room - 1) : room_take(room - 1);
		CHECK(made && !overlaps(made, room, at, 3 * hole));
		/* Rooms share page tables. */
		CHECK(!before || made == before + room);
		memset(made, 1, room);
		before = made;
	}
	CHECK(room_map_once(&once, room) && !overlaps(once, room, at, 3 * hole));
}

/*
 * The process may have no more memory, so no other place is tried: each of the two ranges costs one
 * system call and one place.
 */
static void refused_room_is_not_tried_again(void)
{
	const struct rlimit all = { RLIM_INFINITY, RLIM_INFINITY }, none = { PAGE, RLIM_INFINITY };
	char *before = room_map(MB);

	CHECK(before && !setrlimit(RLIMIT_AS, &none));
	CHECK(!room_map(MB));
	CHECK(!setrlimit(RLIMIT_AS, &all) && room_map(MB) == before + 3 * MB);
}

RUN(failed_unmap_leaves_no_advice)
RUN(moved_mapping_is_not_confused)
RUN(moved_mapping_is_not_cut)
RUN(moves_of_a_mapping_end_one_by_one)
RUN(move_of_the_smaller_rest_ends)
RUN(all_mappings_of_a_range_move)
RUN(moved_mappings_stay_steered)
RUN(moved_mappings_need_one_free_entry)
RUN(last_mapping_of_a_range_grows)
RUN(moved_range_is_shortened)
RUN(shortened_range_is_compared)
RUN(mapping_that_stays_is_compared)
RUN(lost_event_ends_no_move)
RUN(only_ended_moves_leave_advice)
RUN(moved_mapping_leaves_its_place)
RUN(moved_pages_leave_the_mapping)
RUN(moved_mapping_without_room_is_forgotten)
RUN(hint_for_a_part_ends_the_replacement)
RUN(hint_of_the_other_kind_ends_the_replacement)
RUN(hint_of_the_other_kind_ends_no_hint)
RUN(hint_ends_unknown_hints_of_its_kind)
RUN(hint_ends_a_lost_hint)
RUN(hint_ends_hints_beyond_the_table)
RUN(moved_mapping_keeps_the_kinds_of_its_hints)
RUN(hints_beyond_the_table_stay_due)
RUN(hint_beside_a_move_belongs_to_the_old_place)
RUN(hint_beside_a_move_is_given_again)
RUN(hints_beside_a_move_are_not_lost)
RUN(due_hint_of_a_rest_is_kept)
RUN(lost_hint_ends_the_replacement)
RUN(failed_replacement_leaves_no_mode)
RUN(areas_are_few)
RUN(entries_are_small)
RUN(table_grows)
RUN(rooms_are_used_again)
RUN(waiting_events_bring_advice)
RUN(rooms_lie_in_no_hole)
RUN(refused_room_is_not_tried_again)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(failed_unmap_leaves_no_advice_test),
		cmocka_unit_test(moved_mapping_is_not_confused_test),
		cmocka_unit_test(moved_mapping_is_not_cut_test),
		cmocka_unit_test(moves_of_a_mapping_end_one_by_one_test),
		cmocka_unit_test(move_of_the_smaller_rest_ends_test),
		cmocka_unit_test(all_mappings_of_a_range_move_test),
		cmocka_unit_test(moved_mappings_stay_steered_test),
		cmocka_unit_test(moved_mappings_need_one_free_entry_test),
		cmocka_unit_test(last_mapping_of_a_range_grows_test),
		cmocka_unit_test(moved_range_is_shortened_test),
		cmocka_unit_test(shortened_range_is_compared_test),
		cmocka_unit_test(mapping_that_stays_is_compared_test),
		cmocka_unit_test(lost_event_ends_no_move_test),
		cmocka_unit_test(only_ended_moves_leave_advice_test),
		cmocka_unit_test(moved_mapping_leaves_its_place_test),
		cmocka_unit_test(moved_pages_leave_the_mapping_test),
		cmocka_unit_test(moved_mapping_without_room_is_forgotten_test),
		cmocka_unit_test(hint_for_a_part_ends_the_replacement_test),
		cmocka_unit_test(hint_of_the_other_kind_ends_the_replacement_test),
		cmocka_unit_test(hint_of_the_other_kind_ends_no_hint_test),
		cmocka_unit_test(hint_ends_unknown_hints_of_its_kind_test),
		cmocka_unit_test(hint_ends_a_lost_hint_test),
		cmocka_unit_test(hint_ends_hints_beyond_the_table_test),
		cmocka_unit_test(moved_mapping_keeps_the_kinds_of_its_hints_test),
		cmocka_unit_test(hints_beyond_the_table_stay_due_test),
		cmocka_unit_test(hint_beside_a_move_belongs_to_the_old_place_test),
		cmocka_unit_test(hint_beside_a_move_is_given_again_test),
		cmocka_unit_test(hints_beside_a_move_are_not_lost_test),
		cmocka_unit_test(due_hint_of_a_rest_is_kept_test),
		cmocka_unit_test(lost_hint_ends_the_replacement_test),
		cmocka_unit_test(failed_replacement_leaves_no_mode_test),
		cmocka_unit_test(areas_are_few_test),
		cmocka_unit_test(entries_are_small_test),
		cmocka_unit_test(table_grows_test),
		cmocka_unit_test(rooms_are_used_again_test),
		cmocka_unit_test(waiting_events_bring_advice_test),
		cmocka_unit_test(rooms_lie_in_no_hole_test),
		cmocka_unit_test(refused_room_is_not_tried_again_test),
	};

	return cmocka_run_group_tests(tests, new_group, end_group);
}

/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * A small model of Linux for the sources of kernel/: tasks, wait queues, locks, workqueues, and
 * memory whose allocation may fail. A task is a coroutine of the scheduler. Each operation that
 * another CPU could observe is a step of it.
 *
 * The names and their semantics are those of Linux. Functions that kernel/ does not call are
 * left out.
 */
#ifndef SIM_KERNEL_TASK_H
#define SIM_KERNEL_TASK_H

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/types.h>

#include "hm_port_impl.h"
#include "sched.h"

typedef int32_t s32;
typedef uint32_t __u32;
typedef int32_t __s32;
typedef uint64_t __u64;
typedef u32 errseq_t;
typedef u32 fmode_t;
typedef u32 gfp_t;
typedef unsigned long pgoff_t;
typedef unsigned short umode_t;

#define __user
#define __init
#define __percpu
#define __aligned(n) __attribute__((aligned(n)))
#define __acquires(x)
#define __releases(x)
#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)
#define U64_MAX UINT64_MAX

#define WARN_ON_ONCE(cond)                                                       \
	({                                                                       \
		bool sim_warn_ = (cond);                                         \
		if (sim_warn_)                                                   \
			sim_fail(__FILE__, __LINE__, "WARN_ON_ONCE(%s)", #cond); \
		sim_warn_;                                                       \
	})
#define BUILD_BUG_ON(cond) _Static_assert(!(cond), #cond)
#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define offsetofend(type, member) (offsetof(type, member) + sizeof(((type *)0)->member))
#define container_of(ptr, type, member) ((type *)((char *)(ptr) - offsetof(type, member)))

#define min(a, b)                                  \
	({                                         \
		__typeof__(a) min_a_ = (a);        \
		__typeof__(b) min_b_ = (b);        \
		min_a_ < min_b_ ? min_a_ : min_b_; \
	})
#define max(a, b)                                  \
	({                                         \
		__typeof__(a) max_a_ = (a);        \
		__typeof__(b) max_b_ = (b);        \
		max_a_ > max_b_ ? max_a_ : max_b_; \
	})
#define min3(a, b, c) min(min(a, b), c)
#define min_t(type, a, b) min((type)(a), (type)(b))
#define max_t(type, a, b) max((type)(a), (type)(b))
#define clamp(v, lo, hi) min(max(v, lo), hi)
#define IS_ALIGNED(x, a) (((x) & ((a) - 1)) == 0)
#define round_down(x, y) ((x) / (y) * (y))
#define round_up(x, a) (((x) + (a) - 1) / (a) * (a))
#define DIV_ROUND_UP(n, d) (((n) + (d) - 1) / (d))
#define div_u64(n, d) ((u64)(n) / (d))
#define DIV_ROUND_UP_ULL(n, d) DIV_ROUND_UP((u64)(n), (u64)(d))
#define ilog2(n) (63 - __builtin_clzll(n))

static inline u64 hash_64(u64 value, u32 bits)
{
	return (value * 0x61c8864680b583ebull) >> (64 - bits);
}

#define hash_ptr(ptr, bits) ((u32)hash_64((u64)(uintptr_t)(ptr), bits))

#define ERR_PTR(err) ((void *)(long)(err))
#define PTR_ERR(ptr) ((long)(ptr))
#define IS_ERR(ptr) ((unsigned long)(void *)(ptr) >= (unsigned long)-4095)

/* The compiler must not check the format: u64 is long here, and long long in Linux. */
void kernel_log(const char *format, ...);
#define pr_err(...) kernel_log(__VA_ARGS__)
#define pr_err_ratelimited(...) kernel_log(__VA_ARGS__)
#define pr_warn(...) kernel_log(__VA_ARGS__)
#define pr_info(...) kernel_log(__VA_ARGS__)
#define static_assert(cond, ...) _Static_assert(cond, #cond)

/* --- shared memory ------------------------------------------------------------------ */

#define READ_ONCE(x)        \
	({                  \
		sim_step(); \
		(x);        \
	})
#define WRITE_ONCE(x, v)    \
	do {                \
		sim_step(); \
		(x) = (v);  \
	} while (0)
#define smp_wmb() ((void)0)
#define smp_rmb() ((void)0)
#define smp_load_acquire(p) READ_ONCE(*(p))
#define smp_store_release(p, v) WRITE_ONCE(*(p), v)
#define xchg(p, v)                          \
	({                                  \
		sim_step();                 \
		__typeof__(*(p)) o_ = *(p); \
		*(p) = (v);                 \
		o_;                         \
	})
#define cpu_relax() sim_yield()
#define cond_resched() sim_step()

typedef struct {
	int value;
} atomic_t;
typedef atomic_t refcount_t;
typedef hm_atomic_t atomic64_t;
#define atomic64_inc_return(a) hm_atomic_add(a, 1)

static inline int atomic_read(const atomic_t *a)
{
	sim_step();
	return a->value;
}

#define atomic_read_acquire(a) atomic_read(a)
#define atomic_set(a, n) ((a)->value = (n))

static inline int atomic_add_return(int n, atomic_t *a)
{
	sim_step();
	a->value += n;
	return a->value;
}

#define atomic_inc(a) ((void)atomic_add_return(1, a))
#define atomic_dec_and_test(a) (!atomic_add_return(-1, a))
#define atomic_dec(a) ((void)atomic_add_return(-1, a))

static inline int atomic_dec_if_positive(atomic_t *a)
{
	sim_step();
	return a->value > 0 ? --a->value : a->value - 1;
}

#define atomic_add(n, a) ((void)atomic_add_return(n, a))
#define atomic_sub(n, a) ((void)atomic_add_return(-(n), a))
#define refcount_set(a, n) ((a)->value = (n))
#define refcount_inc(a) atomic_inc(a)
#define refcount_dec_and_test(a) (!atomic_add_return(-1, a))

/* --- lists ------------------------------------------------------------ */

struct list_head {
	struct list_head *next, *prev;
};

#define INIT_LIST_HEAD(l) ((l)->next = (l)->prev = (l))

static inline void list_add_tail(struct list_head *item, struct list_head *list)
{
	item->next = list;
	item->prev = list->prev;
	list->prev->next = item;
	list->prev = item;
}

static inline void list_del_init(struct list_head *item)
{
	item->next->prev = item->prev;
	item->prev->next = item->next;
	INIT_LIST_HEAD(item);
}

/* A walk that has reached the item goes on. */
static inline void list_del_rcu(struct list_head *item)
{
	item->next->prev = item->prev;
	item->prev->next = item->next;
	item->prev = NULL;
}

#define list_add_tail_rcu(item, list) list_add_tail(item, list)

static inline bool list_empty(const struct list_head *list)
{
	return list->next == list;
}

#define list_first_entry_or_null(head, type, member) \
	(list_empty(head) ? NULL : container_of((head)->next, type, member))
#define LIST_HEAD(name) struct list_head name = { &name, &name }
#define list_for_each_entry_safe(pos, n, head, member)                    \
	for (pos = container_of((head)->next, __typeof__(*pos), member),  \
	    n = container_of(pos->member.next, __typeof__(*pos), member); \
	     &pos->member != (head);                                      \
	     pos = n, n = container_of(n->member.next, __typeof__(*n), member))
#define list_for_each_entry(pos, head, member)                                                   \
	for (pos = container_of((head)->next, __typeof__(*pos), member); &pos->member != (head); \
	     pos = container_of(pos->member.next, __typeof__(*pos), member))

/* --- bitmaps ------------------------------------------------------------ */

#define DECLARE_BITMAP(name, bits) unsigned long name[((bits) + 63) / 64]
#define test_bit(nr, map) ((map)[(nr) / 64] >> (nr) % 64 & 1)

static inline u32 find_next_bit(const unsigned long *map, u32 size, u32 from)
{
	while (from < size && !test_bit(from, map))
		from++;
	return from < size ? from : size;
}

static inline u32 find_next_zero_bit(const unsigned long *map, u32 size, u32 from)
{
	while (from < size && test_bit(from, map))
		from++;
	return from < size ? from : size;
}

#define for_each_set_bit(i, map, n) \
	for ((i) = find_next_bit(map, n, 0); (i) < (n); (i) = find_next_bit(map, n, (i) + 1))
#define for_each_clear_bit(i, map, n)                        \
	for ((i) = find_next_zero_bit(map, n, 0); (i) < (n); \
	     (i) = find_next_zero_bit(map, n, (i) + 1))

static inline void __set_bit(u32 nr, unsigned long *map)
{
	map[nr / 64] |= 1ul << nr % 64;
}

static inline void bitmap_zero(unsigned long *map, u32 bits)
{
	memset(map, 0, (bits + 63) / 64 * sizeof(*map));
}

static inline void bitmap_fill(unsigned long *map, u32 bits)
{
	memset(map, 0xff, (bits + 63) / 64 * sizeof(*map));
}

static inline void bitmap_set(unsigned long *map, u32 from, u32 n)
{
	for (; n; n--, from++)
		map[from / 64] |= 1ul << (from % 64);
}

static inline void bitmap_clear(unsigned long *map, u32 from, u32 n)
{
	for (; n; n--, from++)
		map[from / 64] &= ~(1ul << (from % 64));
}

/* --- tasks ------------------------------------------------------------ */

struct mm_struct;
struct cred;
struct transfer;
struct sim_file;

#define override_creds(cred) (cred)
#define revert_creds(old) ((void)(old))
#define get_current_cred() NULL
#define put_cred(cred) ((void)(cred))

struct task_struct {
	struct mm_struct *mm;
	struct transfer *transfer; /* its write, until it releases the inode lock */
	struct sim_file *resizes; /* the file that it resizes, until it releases the inode lock */
	u32 flags;
	bool mortal; /* the simulator may kill it */
	bool killed; /* a fatal signal is pending */
	bool signalled; /* a signal with a handler is pending until the call ends */
	u64 fsize_limit; /* RLIMIT_FSIZE; U64_MAX: none */
	u32 nofault;
	u32 in_rcu;
	u64 rcu_left; /* number of RCU read-side sections that it has left */
	u32 in_srcu;
	u64 srcu_left;
	u64 frees; /* number of objects that it has freed */
	int (*work)(void *arg);
	void *arg;
	bool should_stop, over;
	bool reclaims; /* it is in direct reclaim */
	unsigned long reclaimed; /* pages that were accounted to it */
	bool overwrites; /* it has a claim of an overwrite */
};

extern struct task_struct tasks[SIM_COROUTINES + 1];

#define current (&tasks[sched_self()])
#define PF_KTHREAD 1u
#define PF_WQ_WORKER 2u
#define RLIM_INFINITY U64_MAX
#define rlimit(which) (current->fsize_limit) /* RLIMIT_FSIZE is the only one */
#define fatal_signal_pending(task) ((task)->killed)
#define signal_pending(task) ((task)->killed || (task)->signalled)
#define pagefault_disable() ((void)current->nofault++)
#define pagefault_enable() ((void)current->nofault--)
#define raw_smp_processor_id() sim_cpu()

struct task_struct *kthread_run(int (*work)(void *arg), void *arg, const char *format, ...);
void kthread_stop(struct task_struct *task);
#define kthread_should_stop() READ_ONCE(current->should_stop)
#define set_freezable() \
	do {            \
	} while (0)

static inline void rcu_read_lock(void)
{
	current->in_rcu++;
}

static inline void rcu_read_unlock(void)
{
	if (!--current->in_rcu)
		current->rcu_left++;
	sim_step();
}

void synchronize_rcu(void);

struct rcu_head {
	struct rcu_head *next;
	void (*func)(struct rcu_head *head);
};

/* The clock calls @func, some time after all sections that have begun are over. */
void call_rcu(struct rcu_head *head, void (*func)(struct rcu_head *head));
void rcu_tick(void);
void rcu_barrier(void);
void rcu_forget(void); /* after a power cut */

/* SRCU: the engine has one domain. Tasks may sleep in a section. */
struct srcu_struct {
	char unused;
};
#define DEFINE_SRCU(name) struct srcu_struct name

static inline int srcu_read_lock(struct srcu_struct *srcu)
{
	(void)srcu;
	sim_step();
	current->in_srcu++;
	return 0;
}

static inline void srcu_read_unlock(struct srcu_struct *srcu, int idx)
{
	(void)srcu;
	(void)idx;
	if (!--current->in_srcu)
		current->srcu_left++;
	sim_step();
}

#define srcu_read_lock_held(srcu) ((void)(srcu), current->in_srcu)
#define list_for_each_entry_srcu(pos, head, member, held) list_for_each_entry(pos, head, member)
void synchronize_srcu_expedited(struct srcu_struct *srcu);
void call_srcu(struct srcu_struct *srcu, struct rcu_head *head,
	       void (*func)(struct rcu_head *head));
void srcu_barrier(struct srcu_struct *srcu);

#define RACE_POINTS 16u
void window_pass(u32 number, const char *text);
#define synchronize_rcu_expedited() synchronize_rcu()

/* --- time ------------------------------------------------------------ */

#define HZ 1000
extern unsigned long jiffies;
#define MAX_SCHEDULE_TIMEOUT LONG_MAX
#define msecs_to_jiffies(ms) (ms)
#define time_after(a, b) ((long)((b) - (a)) < 0)
#define time_before(a, b) time_after(b, a)
#define local_clock() ((u64)jiffies * 1000000)
typedef u64 ktime_t;
#define ktime_get() local_clock()
#define ktime_to_ms(t) ((t) / 1000000)
void time_passes(unsigned long more); /* wakes the tasks whose timeout has expired */
void schedule_timeout_uninterruptible(long timeout);
/* Sleeps of less than a tick. */
#define usleep_range(least, most) sim_yield()
void schedule_timeout_killable(long timeout);

/* --- waiting ------------------------------------------------------------ */

typedef struct wait_queue_head {
	char unused;
} wait_queue_head_t;

#define init_waitqueue_head(wait) ((void)(wait))

void wait_prepare(wait_queue_head_t *wait);
void wait_sleep(unsigned long deadline, bool idle); /* 0: no deadline; idle: may last for ever */
void wait_done(void);
bool wq_has_sleeper(wait_queue_head_t *wait);
void wake_up_all(wait_queue_head_t *wait);
#define wake_up(wait) wake_up_all(wait)

#define sim_wait_(wait, cond, killable, timeout, idle)                                     \
	({                                                                                 \
		unsigned long until_ = (timeout) ? jiffies + (unsigned long)(timeout) : 0; \
		long ret_ = 0;                                                             \
		for (;;) {                                                                 \
			wait_prepare(wait);                                                \
			if (cond) {                                                        \
				ret_ = (timeout) ? max((long)(until_ - jiffies), 1l) : 0;  \
				break;                                                     \
			}                                                                  \
			if ((killable) && fatal_signal_pending(current)) {                 \
				ret_ = -EINTR;                                             \
				break;                                                     \
			}                                                                  \
			if ((timeout) && !time_before(jiffies, until_))                    \
				break;                                                     \
			wait_sleep(until_, idle);                                          \
		}                                                                          \
		wait_done();                                                               \
		ret_;                                                                      \
	})

#define wait_event(wait, cond) ((void)sim_wait_(&(wait), cond, false, 0, false))
#define wait_event_killable(wait, cond) ((int)sim_wait_(&(wait), cond, true, 0, false))
#define wait_event_killable_timeout(wait, cond, timeout) \
	sim_wait_(&(wait), cond, true, timeout, false)
#define try_to_freeze() false
#define wait_event_freezable(wait, cond) ((void)sim_wait_(&(wait), cond, false, 0, true))
#define wait_event_freezable_timeout(wait, cond, timeout) \
	((void)sim_wait_(&(wait), cond, false, timeout, true))
#define wait_event_timeout(wait, cond, timeout) sim_wait_(&(wait), cond, false, timeout, false)

struct completion {
	bool done;
	wait_queue_head_t wait;
};

static inline void init_completion(struct completion *c)
{
	c->done = false;
}

#define reinit_completion(c) init_completion(c)

static inline void complete(struct completion *c)
{
	WRITE_ONCE(c->done, true);
	wake_up_all(&c->wait);
}

#define wait_for_completion_killable(c) wait_event_killable((c)->wait, READ_ONCE((c)->done))
#define wait_for_completion(c) wait_event((c)->wait, READ_ONCE((c)->done))

/* --- locks ------------------------------------------------------------ */

typedef hm_spinlock_t spinlock_t;
#define spin_lock_init(l) hm_spin_init(l)
#define spin_lock(l) hm_spin_lock(l)
#define spin_unlock(l) hm_spin_unlock(l)

struct mutex {
	struct sim_lock lock;
};
#define mutex_init(m) ((m)->lock.held = false)
#define mutex_lock(m) sim_lock(&(m)->lock)
#define mutex_unlock(m) sim_unlock(&(m)->lock)
bool mutex_trylock(struct mutex *m);
#define lockdep_assert_held(m) sim_check((m)->lock.held, "a lock is not held")

struct rw_semaphore {
	struct sim_rwlock lock;
};
#define init_rwsem(s) ((s)->lock = (struct sim_rwlock){ 0 })
#define down_read(s) sim_read_lock(&(s)->lock)
#define up_read(s) sim_read_unlock(&(s)->lock)
#define down_write(s) sim_write_lock(&(s)->lock)
#define up_write(s) sim_write_unlock(&(s)->lock)
bool down_read_trylock(struct rw_semaphore *s);
#define down_read_killable(s) (down_read(s), 0)
#define smp_mb() sim_step()
#define smp_mb__before_atomic() sim_step()
#define smp_mb__after_atomic() sim_step()
#define rwsem_is_locked(s) ((s)->lock.writer || (s)->lock.readers)
bool down_write_trylock(struct rw_semaphore *s);

/* --- works ------------------------------------------------------------ */

struct work_struct {
	void (*func)(struct work_struct *work);
	struct work_struct *next;
	bool queued;
};

struct workqueue_struct {
	struct work_struct *first, **last;
	u32 running;
};

#define INIT_WORK(w, f) (*(w) = (struct work_struct){ .func = (f) })
#define INIT_WORK_ONSTACK(w, f) INIT_WORK(w, f)
#define destroy_work_on_stack(w) ((void)(w))
#define WQ_UNBOUND 0
#define WQ_HIGHPRI 0
#define WQ_MEM_RECLAIM 0
#define WQ_MAX_ACTIVE 0
struct workqueue_struct *alloc_workqueue(const char *name, u32 flags, int active);
#define alloc_ordered_workqueue(name, flags) alloc_workqueue(name, flags, 1)
#define destroy_workqueue(wq) flush_workqueue(wq)
bool queue_work(struct workqueue_struct *wq, struct work_struct *work);
void flush_workqueue(struct workqueue_struct *wq);
void worker_main(void *arg); /* coroutine */

/* --- memory ------------------------------------------------------------ */

#define __GFP_DIRECT_RECLAIM 8u
#define __GFP_RECLAIM 24u
#define __GFP_FS 32u
#define GFP_KERNEL (__GFP_RECLAIM | __GFP_FS)
#define GFP_NOFS __GFP_RECLAIM
#define __GFP_NOFAIL 64u
#define GFP_KERNEL_ACCOUNT GFP_KERNEL
#define GFP_NOWAIT 1u
#define __GFP_NOWARN 0u
#define __GFP_COMP 0u
#define __GFP_ZERO 0u
#define __GFP_NORETRY 2u
#define __GFP_RETRY_MAYFAIL 4u
#define SLAB_HWCACHE_ALIGN 0
#define SLAB_ACCOUNT 0
#define SLAB_RECLAIM_ACCOUNT 0

/* A power cut frees all of it. */
void *sim_alloc(size_t bytes, gfp_t gfp); /* zeroed; NULL: out of memory */
void sim_free(const void *mem);
void sim_free_all(void);
u32 sim_allocated(void); /* number of allocations that were not freed */

#define kzalloc(n, gfp) sim_alloc(n, gfp)
#define kvzalloc(n, gfp) sim_alloc(n, gfp)
#define kvcalloc(n, size, gfp) sim_alloc((size_t)(n) * (size), gfp)
#define kmalloc(n, gfp) sim_alloc(n, gfp)
#define kmalloc_array(n, size, gfp) sim_alloc((size_t)(n) * (size), gfp)
#define kvmalloc(n, gfp) sim_alloc(n, gfp)
#define kvmalloc_array(n, size, gfp) sim_alloc((size_t)(n) * (size), gfp)
#define kfree(p) sim_free(p)
#define kvfree(p) sim_free(p)
#define vzalloc(n) sim_alloc(n, GFP_KERNEL)
#define vfree(p) sim_free(p)

struct kmem_cache {
	size_t bytes;
};
typedef struct mempool {
	size_t bytes;
} mempool_t;

struct kmem_cache *kmem_cache_create(const char *name, size_t bytes, u32 align, u32 flags,
				     void (*ctor)(void *));
#define KMEM_CACHE(type, flags) \
	kmem_cache_create(#type, sizeof(struct type), __alignof__(struct type), flags, NULL)
void kmem_cache_destroy(struct kmem_cache *cache);
#define kmem_cache_zalloc(cache, gfp) sim_alloc((cache)->bytes, gfp)
#define kmem_cache_alloc(cache, gfp) sim_alloc((cache)->bytes, gfp)
#define kmem_cache_free(cache, p) sim_free(p)
mempool_t *mempool_create_kmalloc_pool(int n, size_t bytes);
mempool_t *mempool_create_slab_pool(int n, struct kmem_cache *cache);
void mempool_destroy(mempool_t *pool);
void *mempool_alloc(mempool_t *pool, gfp_t gfp); /* NULL with GFP_NOWAIT only */
#define mempool_free(p, pool) sim_free(p)

/* One copy for all CPUs, which is safe because tasks switch only at steps. */
#define alloc_percpu(type) ((type *)sim_alloc(sizeof(type), 0))
#define free_percpu(p) sim_free(p)
#define per_cpu_ptr(p, cpu) ((void)(cpu), (p))
#define this_cpu_add(var, n) ((var) += (n))
#define this_cpu_inc(var) ((var)++)
#define raw_cpu_ptr(p) (p)
#define for_each_possible_cpu(cpu) for ((cpu) = 0; (cpu) < 1; (cpu)++)
#define __vmalloc(n, gfp) sim_alloc(n, gfp)
u32 num_online_cpus(void);

#endif /* SIM_KERNEL_TASK_H */

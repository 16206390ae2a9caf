/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* POSIX threads for the simulator: coroutines, see process.c. */
#ifndef HM_USER_SIM_PTHREAD_H
#define HM_USER_SIM_PTHREAD_H

#include_next <pthread.h>
#include <signal.h>
#include <stdbool.h>

struct sim_lock;
struct sim_rwlock;

void thread_lock(struct sim_lock *lock);
void thread_unlock(struct sim_lock *lock);
void thread_read_lock(struct sim_rwlock *lock);
bool thread_try_read_lock(struct sim_rwlock *lock);
void thread_write_lock(struct sim_rwlock *lock);
void thread_rw_unlock(struct sim_rwlock *lock);
void thread_wait(pthread_cond_t *cond, struct sim_lock *lock);
void thread_signal(pthread_cond_t *cond);
int thread_create(pthread_t *thread, void *(*work)(void *), void *arg);
void thread_join(pthread_t thread);

/* A lock of the C library is zeros when it is free, and larger than ours. */
#define pthread_mutex_init(lock, attr) ((void)memset((lock), 0, sizeof(*(lock))))
#define pthread_mutex_destroy(lock) ((void)(lock))
#define pthread_mutex_lock(lock) thread_lock((struct sim_lock *)(lock))
#define pthread_mutex_unlock(lock) thread_unlock((struct sim_lock *)(lock))

#define pthread_rwlockattr_init(attr) ((void)(attr))
#define pthread_rwlockattr_setkind_np(attr, kind) ((void)(attr))
#define pthread_rwlockattr_destroy(attr) ((void)(attr))
#define pthread_rwlock_init(lock, attr) ((void)memset((lock), 0, sizeof(*(lock))))
#define pthread_rwlock_destroy(lock) ((void)(lock))
#define pthread_rwlock_rdlock(lock) thread_read_lock((struct sim_rwlock *)(lock))
#define pthread_rwlock_tryrdlock(lock) !thread_try_read_lock((struct sim_rwlock *)(lock))
#define pthread_rwlock_wrlock(lock) thread_write_lock((struct sim_rwlock *)(lock))
#define pthread_rwlock_unlock(lock) thread_rw_unlock((struct sim_rwlock *)(lock))

#define pthread_cond_init(cond, attr) ((void)memset((cond), 0, sizeof(*(cond))))
#define pthread_cond_destroy(cond) ((void)(cond))
#define pthread_cond_wait(cond, lock) thread_wait(cond, (struct sim_lock *)(lock))
#define pthread_cond_signal(cond) thread_signal(cond)
#define pthread_cond_broadcast(cond) thread_signal(cond)

#define pthread_create(thread, attr, work, arg) thread_create(thread, work, arg)
#define pthread_join(thread, result) thread_join(thread)
#define pthread_setname_np(thread, name) ((void)(thread))

/* There are no signals, no cancelling and no fork() in the simulated world. */
#define pthread_sigmask(how, set, old) ((void)(set))
#define pthread_setcancelstate(state, old) ((void)(state))
#define pthread_once(once, work) ((void)(once), (work)())
#define pthread_atfork(before, parent, child) ((void)(before), (void)(parent), (void)(child), 0)

#endif /* HM_USER_SIM_PTHREAD_H */

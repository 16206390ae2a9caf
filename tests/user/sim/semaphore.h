/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* POSIX semaphores for the simulator, see process.c. */
#ifndef HM_USER_SIM_SEMAPHORE_H
#define HM_USER_SIM_SEMAPHORE_H

#include_next <semaphore.h>

int thread_sem_wait(sem_t *sem);
void thread_sem_post(sem_t *sem);

#define sem_init(sem, shared, value) ((void)memset((sem), 0, sizeof(*(sem))))
#define sem_destroy(sem) ((void)(sem))
#define sem_wait(sem) thread_sem_wait(sem)
#define sem_post(sem) thread_sem_post(sem)

#endif /* HM_USER_SIM_SEMAPHORE_H */

/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * C11's atomics for the simulator: before each operation another coroutine may run.
 * There is one thread, so that is all that there is to them.
 */
#ifndef HM_USER_SIM_STDATOMIC_H
#define HM_USER_SIM_STDATOMIC_H

#include_next <stdatomic.h>

#include "hm_port_impl.h"

#undef atomic_load
#undef atomic_load_explicit
#undef atomic_store
#undef atomic_store_explicit
#undef atomic_exchange
#undef atomic_fetch_add
#undef atomic_fetch_add_explicit
#undef atomic_fetch_sub
#undef atomic_compare_exchange_strong
#undef atomic_compare_exchange_weak

#define atomic_load(p)      \
	({                  \
		sim_step(); \
		*(p);       \
	})
#define atomic_load_explicit(p, order) atomic_load(p)

#define atomic_store(p, v)  \
	({                  \
		sim_step(); \
		*(p) = (v); \
	})
#define atomic_store_explicit(p, v, order) atomic_store(p, v)

#define atomic_exchange(p, v)                          \
	({                                             \
		__typeof__((void)0, *(p)) atomic_old_; \
                                                       \
		sim_step();                            \
		atomic_old_ = *(p);                    \
		*(p) = (v);                            \
		atomic_old_;                           \
	})

#define atomic_fetch_add(p, v)                         \
	({                                             \
		__typeof__((void)0, *(p)) atomic_old_; \
                                                       \
		sim_step();                            \
		atomic_old_ = *(p);                    \
		*(p) = atomic_old_ + (v);              \
		atomic_old_;                           \
	})
#define atomic_fetch_add_explicit(p, v, order) atomic_fetch_add(p, v)
#define atomic_fetch_sub(p, v) atomic_fetch_add(p, -(v))

#define atomic_compare_exchange_strong(p, expected, v) \
	({                                             \
		bool atomic_same_;                     \
                                                       \
		sim_step();                            \
		atomic_same_ = *(p) == *(expected);    \
		if (atomic_same_)                      \
			*(p) = (v);                    \
		else                                   \
			*(expected) = *(p);            \
		atomic_same_;                          \
	})
#define atomic_compare_exchange_weak(p, expected, v) atomic_compare_exchange_strong(p, expected, v)

#endif /* HM_USER_SIM_STDATOMIC_H */

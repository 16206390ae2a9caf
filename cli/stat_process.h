/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* hugemap stat: numbers of processes whose mappings are steered. */
#ifndef CLI_STAT_PROCESS_H
#define CLI_STAT_PROCESS_H

struct process;

void stat_process_print(const struct process *process);
struct json_t;
struct json_t *stat_process_json(const struct process *process);
/* Print the titles of the list, or a line. */
void stat_process_list_title(void);
void stat_process_list_line(const struct process *process);

#endif /* CLI_STAT_PROCESS_H */

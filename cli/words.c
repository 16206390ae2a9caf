// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "cli.h"

#include <string.h>

#define WIDTH 80

void cli_print_words(int indent, const char *text)
{
	int column = indent, length;

	for (; *text; text += length + (text[length] == ' ')) {
		length = (int)strcspn(text, " ");
		if (column > indent && column + 1 + length > WIDTH) {
			printf("\n%*s", indent, "");
			column = indent;
		}
		column += printf("%s%.*s", column > indent ? " " : "", length, text);
	}
	putchar('\n');
}

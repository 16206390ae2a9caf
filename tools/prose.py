# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The idioms that CONTRIBUTING.md replaces, as patterns that plain English does not match."""
import re

START = r"(?:^|(?<=[.!?:;] ))"
# A free relative clause follows one of these, or starts a sentence. After a noun "who" is plain.
BEFORE = (START + r"|(?<=[;:(] )|\b(?:[Ff]or|of|to|by|from|with|without|at|on|in|into|after|before|behind|beside|"
          r"than|as|like|and|or|but|if|when|while|until|unless|because|that|so|not|only|is|are) ")
VERB = (r"(?:is|are|was|were|has|had|have|can|could|may|might|must|will|would|should|does|did|it|they|"
        r"comes?|came|goes|went|lies|lay|follows|remains?|stays?|passes|belongs?|happens|happened|others?)\b")
# Indirect questions and quotations are plain; so are direct questions.
PLAIN = re.compile(
    START + r"(?:Who|What|Where)\b[^.!?]*\?"
    r"|\b(?:ask|check|choose|compare|decide|define|depend on|describe|determine|document|explain|find|know|"
    r"learn|list|print|record|report|see|show|specify)(?:s|es|d|ed|n|ing)?(?: out| exactly| on)? what\b"
    r"|\b(?:comment|documentation|help|manual|message|paper|README|section|standard|page|POSIX)(?:\(\d\))? says\b"
    r"|\bThat said\b|\bOf course\b|\b(?:all|both|each|many|most|none|one|some|two|three) of which\b",
    re.IGNORECASE)

IDIOMS = tuple((advice, re.compile(pattern)) for advice, pattern in (
    ("name the actor", rf"(?:{BEFORE})[Ww]ho\b|\b(?:[Ww]hoever|[Ww]homever)\b"),
    ("name the thing", rf"{START}What\b|\bwhat {VERB}|\b(?:of|for|by|from|with|to|than|beside|behind) what [a-z]+s\b"),
    ("put the subject first",
     START + r"(?:Of|Where|Else|Nor|As (?:is|are|was|were|does|do|many|much|few|little|can|may|must|ever|before))\b"
     r"|\bof (?:which|whom|theirs|ours)\b"),
    ("write the whole sentence",
     START + r"(?:Perhaps|Rather|Likewise|No more|By way of|The same (?:of|for|with|by|in)|"
     r"Not (?:with|by|of|while|where|until|that))\b"),
    ("state the lock, the owner or the state",
     r"\b(?:[Nn]obody|[Ss]omebody|[Aa]nybody|[Ee]verybody|[Nn]othing (?:of|that))\b"),
    ("report, return, request", r"\b(?:told|tells|said|says|asks|asked)\b"),
    ("say when", r"\b(?:[Mm]eanwhile|as ever|by then|since then|anew)\b|\bafter all(?=[.,;:)]|$)"),
))


def count_words(words: str) -> int:
    return len(re.findall(r"[A-Za-z][\w'-]*", words))


def idioms(words: str) -> list[tuple[str, str]]:
    """The idioms of a paragraph: what to do instead, and where."""
    words = PLAIN.sub(lambda found: "~" * len(found[0]), words)
    return [(advice, words[max(found.start() - 20, 0):found.end() + 30])
            for advice, pattern in IDIOMS for found in pattern.finditer(words)]

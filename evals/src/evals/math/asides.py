"""What stands in a sentence beside its answer: reasons, conditions, comparisons, times, places."""

import re

_REASONS = (
    r"\b(?:because|since|given (?:that|the)|rather than|instead of|whether|provided)\b|,\s*as\s",
    r"\b(?:compared (?:to|with)|as opposed to)\b|\bnot\s+(?=[$\d])|,\s*not\b",
    r",\s*(?:which is|that is|or)?\s*(?:about|approximately|roughly)\b|(?:\$|\\\()\s*\\approx|≈",
    r"\$\s*\((?:about|approximately|roughly)\b|,\s*or\s+\d[\d,.]*\s+[a-z]{3}",
    r",\s*which\s+(?!(?:is|was|are|were|means|gives|leaves|makes|equals|totals|comes|brings)\b)\w",
    r"\bof (?:which|whom)\b|,\s*(?:who|whose|where)\b|\s—\s|:\s+\$?\d[^:]*\band\s+\$?\d",
    r"\bfor\s(?=(?:(?:even|odd|positive|real|large|whole|integers?)\s){0,2}(?:\$\\?[a-z]|\\\())",
    r"\band (?:a )?remainder\s",
    r"\b(?:for (?:all|every|any|each)|where|when|whenever|with|such that|if)\s*"
    r"(?=[$\\(]|(?:[a-z]+\s+){1,4}\$)",
)
_CIRCUMSTANCES = (
    r"\bout of\b|\b(?:left|remaining) of\b",
    r"\band (?:(?:s?he|they|it) )?(?:has|have|had)\s[^,;]{0,60}\bleft\b",
    r"\band (?:there (?:is|are|will be) )?\\?\$?[\d.,]+ (?:[a-z]+ ){0,2}(?:remain|left)",
    r"\b(?:when|while|if|assuming|unless|once|until|until after)\s(?=[A-Za-z])",
    r"\b(?:by|without)\s+\w+ing\b|,\s*(?!(?:leav|mak|giv|total|yield|bring|result)ing)\w+ing\b",
    # "after the sale", unless a sentence goes on behind it
    r"(?<!and )(?<!then )\b(?:after|before|during|(?:by|at) the (?:end|start|beginning) of)\b"
    r"(?![^,;]{0,160}\b(?:is|are|was|were|has|have|had|will|would|there|remain\w*|left)\b(?!,))"
    r"[^,;]{0,160}$",
    # "to carry 350 students", but not what has to be paid and what a calculation gets
    r"(?<!need )(?<!needs )(?<!has )(?<!have )(?<!had )(?<!able )(?<!wants )(?<!required )"
    r"\bto (?!(?:get|give|make|obtain|find|yield|reach|total|have|be(?! able)|become|earn|an?|the)"
    r"\b)[a-z]+\s[^,;]{0,160}$",
    r"\bat (?=\\?\$[\d.,]+ (?:an?|per|each|apiece)\b)",
    r"(?:,[^,]*)?(?<!=)(?<!= )\b\d+\s+\w+\s+"
    r"(?:younger|older|taller|shorter|longer|earlier|later)\b",
    r",\s*(?:which is\s+)?\$?\d[\d,.]*%?\s+(?:\w+\s+)?(?:more|less|fewer|greater) than\b",
    r"(?:which is\s+)?\b(?:more|less|fewer|greater|larger|higher) (?:\w+ )?than\b",
)
_NO_RESULT = r"(?![^=\n]{0,200}=\s*[-−$\\\d])"
"""What holds the result of a calculation is no circumstance."""
ASIDE = re.compile(rf",?\s*(?:{'|'.join(_REASONS)}|{_NO_RESULT}(?:{'|'.join(_CIRCUMSTANCES)}))")
"""Where a sentence leaves its main clause."""
LEADING_CLAUSE = re.compile(
    r"^\W*(?:If|Since|Because|As|When|While|Given|After|Before|Out of|[A-Z][a-z]+ing)\b"
    r"(?:[^,]|,(?=\d)){0,300},\s"
)
"""The clause before the main one."""
ASIDE_BRACKETS = re.compile(
    r"(?<=\s)\((?!base)(?:[^()]*[A-Za-z]{3}|\s*(?:=|≈|or\b)|\\?\$\d)[^()]*\)"
)
CIRCUMSTANCE = re.compile(
    r"\b(?:for|after|in|over|within|during|every|each|per|on|at|among|between|from"
    r"|(?<!left )(?<!up )(?<!ing her )(?<!ing him )(?<!ing them )with)\s+"
    r"(?:(?:the|all|these|those|each|every|about|another|his|her|their|its|only)\s+)?"
    r"(?:(?:other|next|first|last|remaining|original|initial|usual)\s+)?$"
    r"|\b(?:all|these|those|after \w+ing|by \w+ing|(?:the|in) year|by|an?)\s+$"
    r"|\bthe\s+(?:(?:other|next|first|last|remaining)\s+)?$"
    r"|\bat (?:an?|the) (?:[a-z]+ )?(?:speed|rate|pace) of\s+$"
    r"|\b(?:day|week|month|year|class|group|team|family|pack|box)s?\s+of\s+$",
    re.IGNORECASE,
)
"""What a number of a circumstance follows: "in the first 3", "a week of"."""
NAMED_AMOUNT = re.compile(
    r"\b(?:the|an?|his|their|this|that|its|original)\s+\\?\$[\d,.]*\d\s+"
    r"(?!(?:in|for|on|at|to|and|or|more|less|from|as|by|each|per|left|that|which|when|if|is|of|an?)"
    r"\b)[a-z]+"
)
"""An amount of money that only names a thing: "the $40 discount"."""

"""Numbers, times and long texts for people."""

import math


def clip(text: str, most: int) -> str:
    """Return the text cut to `most` characters, with a note of what was left out."""
    if len(text) <= most:
        return text
    return f"{text[:most]}\n… {len(text) - most:,} more characters"


def figure(value: float, share: bool = False) -> str:
    """Return a number with three significant digits, or a percentage for a share."""
    if share:
        return f"{100 * value:.1f} %"
    if value == 0:
        return "0"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    digits = 2 - math.floor(math.log10(abs(value)))
    return f"{value:.{min(max(digits, 0), 4)}f}".replace("-", "−")


def duration(seconds: float) -> str:
    """Return seconds as `48 s`, `4 min 10 s` or `2 h 5 min`."""
    whole = round(seconds)
    if seconds < 10:
        return f"{seconds:.1f} s"
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"

"""The page's colours: teachers orange, students blue, and a scale from one to the other."""

STEPS = 20
"""Steps of the scale of solve rates, from 0 (the teacher wins) to 1 (the student wins)."""

_LIGHT = ((176, 84, 4), (246, 244, 240), (22, 92, 196))
_DARK = ((244, 165, 84), (44, 50, 58), (112, 176, 255))


def scale_style() -> str:
    """Rules for `c0` to `c20`, the cells of a heat map, and `i0` to `i20`, the text in them."""
    light = _rules(_LIGHT, dark_ends=True)
    dark = _rules(_DARK, dark_ends=False)
    return f"{light}\n@media (prefers-color-scheme: dark) {{ {dark} }}\n"


def step(share: float) -> int:
    """The step of the scale for a solve rate in [0, 1]."""
    return round(STEPS * min(1.0, max(0.0, share)))


def _rules(ends: tuple[tuple[int, int, int], ...], dark_ends: bool) -> str:
    rules = []
    for i in range(STEPS + 1):
        at = 2.0 * i / STEPS - 1.0
        away = abs(at) ** 0.85
        end = ends[0] if at < 0.0 else ends[2]
        mixed = [
            round(middle + away * (last - middle))
            for middle, last in zip(ends[1], end, strict=True)
        ]
        ink = "#fff" if (away > 0.62) == dark_ends else "#14181d"
        rules.append(f".c{i}{{fill:#{''.join(f'{x:02x}' for x in mixed)}}}.i{i}{{fill:{ink}}}")
    return "".join(rules)

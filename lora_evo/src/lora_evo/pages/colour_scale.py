"""A colour scale whose equal steps look equal, from dark blue to pale yellow."""

import math

# Linear sRGB from the cube roots of cone responses, and those from OKLab (Ottosson 2020).
_TO_CONES = (
    (1.0, 0.3963377774, 0.2158037573),
    (1.0, -0.1055613458, -0.0638541728),
    (1.0, -0.0894841775, -1.2914855480),
)
_TO_RGB = (
    (4.0767416621, -3.3077115913, 0.2309699292),
    (-1.2684380046, 2.6097574011, -0.3413193965),
    (-0.0041960863, -0.7034186147, 1.7076147010),
)
_LIGHTNESS = (0.30, 0.96)
_HUE = (275.0, 110.0)


def colour(share: float) -> str:
    """The colour at `share` of the scale (0 to 1, cut to that), as `#rrggbb`.

    Lightness of OKLab rises in a straight line, so that the order survives in grey and for
    colour-blind eyes; the hue turns from blue over green to yellow.
    """
    at = min(1.0, max(0.0, share))
    light = _LIGHTNESS[0] + at * (_LIGHTNESS[1] - _LIGHTNESS[0])
    hue = math.radians(_HUE[0] + at * (_HUE[1] - _HUE[0]))
    chroma = 0.06 + 0.06 * math.sin(math.pi * at)
    lab = (light, chroma * math.cos(hue), chroma * math.sin(hue))
    cones = [sum(w * x for w, x in zip(row, lab, strict=True)) ** 3 for row in _TO_CONES]
    linear = [sum(w * x for w, x in zip(row, cones, strict=True)) for row in _TO_RGB]
    return "#" + "".join(f"{round(255 * _gamma(x)):02x}" for x in linear)


def ink(share: float) -> str:
    """A colour to write in on top of `colour(share)`."""
    return "#ffffff" if share < 0.42 else "#101418"


def _gamma(linear: float) -> float:
    x = min(1.0, max(0.0, linear))
    return 12.92 * x if x <= 0.0031308 else 1.055 * x ** (1 / 2.4) - 0.055

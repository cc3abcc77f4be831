"""Charts of a population and of a family, as Altair charts that show themselves in a notebook.

from lora_evo import diversity
from lora_evo.report import distances

distances(diversity(adapters, names)).save("distances.svg")

They need the extra `report`.
"""

from lora_evo.pages.extra import extra_report

with extra_report():
    from lora_evo.pages.family_drawing import family_tree
    from lora_evo.pages.frame import save_charts
    from lora_evo.pages.population_charts import (
        distances,
        heat_map,
        member_map,
        module_shares,
        population_charts,
    )

__all__ = [
    "distances",
    "family_tree",
    "heat_map",
    "member_map",
    "module_shares",
    "population_charts",
    "save_charts",
]

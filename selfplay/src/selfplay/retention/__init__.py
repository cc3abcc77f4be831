"""Retention: do the children of the operators recover when they are trained on as students?"""

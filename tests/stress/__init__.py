# SPDX-License-Identifier: Apache-2.0
"""Long runs against one daemon or many: races, starts and stops, a soak, bad networks."""

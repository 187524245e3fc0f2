# SPDX-License-Identifier: Apache-2.0
"""The hostile inputs of docs/reliability.md: what is sent, what is answered, and that nothing else
suffers from it. `rows` has the table, `scene` sends and judges one input of it."""

"""HTML pages and drawings that open without a network.

Must not import: cli. Other packages add scripts of their own to `page.assembled`.
"""

"""Tables and figures of published papers, computed again by the other rooms."""

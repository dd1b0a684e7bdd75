"""Two reports side by side: what differs beyond noise, and what that moved."""

"""The model behind the service as replicas in other processes; streams survive their crashes.

Ray Serve runs them. The modules of ``on_ray`` alone import Ray, and are imported only where
replicas are asked for.
"""

"""The model behind the service as replicas in other processes; streams survive their crashes.

Ray Serve runs them, or there is one in ``model_process``. The modules of ``on_ray`` alone import
Ray, and are imported only where replicas are asked for.
"""

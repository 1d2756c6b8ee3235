class Always:
    @staticmethod
    def of(plan): return None

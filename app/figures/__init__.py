"""Pure functions from trace records to Plotly figures; one function a picture."""

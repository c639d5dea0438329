"""The measured networks as torch modules, written for the device model: shapes and operations are those of the published ones.

A module is made on meta tensors; `blocks` are the IPUs that its parts go to.
"""

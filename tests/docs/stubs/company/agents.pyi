from wakeful import Registry

registry: Registry

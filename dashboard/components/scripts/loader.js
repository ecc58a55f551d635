// Load a view's module from the server, so that the page's messages do not carry its script.
const mountedViews = new WeakMap();

export default (component) => {
  const parent = component.parentElement;
  let mounted = mountedViews.get(parent);
  if (!mounted) {
    mountedViews.set(parent, (mounted = { view: null, gone: false }));
    const moduleUrl = new URL(component.data.module, document.baseURI).href;
    import(moduleUrl)
      .then((module) => {
        // The element may have been removed, or have received newer data, while the module was on its way.
        if (!mounted.gone) (mounted.view = module.mount(parent)).update(mounted.latest);
      })
      .catch((error) => {
        parent.textContent = `This view cannot be drawn (${error.message}). Start the dashboard by "frontier".`;
      });
  }
  mounted.latest = component;
  mounted.view?.update(component);
  return () => {
    mounted.gone = true;
    mounted.view?.end();
    mountedViews.delete(parent);
  };
};

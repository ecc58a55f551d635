// Mounts a view whose module the server serves, so that no message of the page has to carry its script.
const mounted = new WeakMap();

export default (component) => {
  const parent = component.parentElement;
  let shown = mounted.get(parent);
  if (!shown) {
    mounted.set(parent, (shown = { view: null, gone: false }));
    const address = new URL(component.data.module, document.baseURI).href;
    import(address)
      .then((module) => {
        if (!shown.gone) (shown.view = module.mount(parent)).update(shown.latest);
      })
      .catch((error) => {
        parent.textContent = `This view cannot be drawn (${error.message}). Start the dashboard by "frontier".`;
      });
  }
  shown.latest = component;
  shown.view?.update(component);
  return () => {
    shown.gone = true;
    shown.view?.end();
    mounted.delete(parent);
  };
};

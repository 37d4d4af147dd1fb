/** The pages and their paths. */

export type Route =
  | { readonly page: "fleet" }
  | { readonly page: "host"; readonly cluster: string; readonly host: string }
  | { readonly page: "gpu"; readonly uuid: string }
  | { readonly page: "pipeline" }
  | { readonly page: "missing"; readonly path: string };

export const FLEET: Route = { page: "fleet" };
export const PIPELINE: Route = { page: "pipeline" };

export function parsePath(path: string): Route {
  const [first = "", ...rest] = path.replace(/^\//, "").split("/").map(decode);
  const [one, other, ...more] = rest;
  if (more.length === 0) {
    if ((first === "" || first === "fleet") && one === undefined) return FLEET;
    if (first === "pipeline" && one === undefined) return PIPELINE;
    if (first === "gpu" && one && other === undefined) return { page: "gpu", uuid: one };
    if (first === "host" && one !== undefined && other) {
      return { page: "host", cluster: one, host: other };
    }
  }
  return { page: "missing", path };
}

export function pathOf(route: Route): string {
  switch (route.page) {
    case "fleet":
      return "/";
    case "pipeline":
      return "/pipeline";
    case "gpu":
      return `/gpu/${encodeURIComponent(route.uuid)}`;
    case "host":
      return `/host/${encodeURIComponent(route.cluster)}/${encodeURIComponent(route.host)}`;
    case "missing":
      return route.path;
  }
}

function decode(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
}

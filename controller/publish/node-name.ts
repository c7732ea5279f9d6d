/** An RFC 1123 subdomain, as Kubernetes requires for Node names. */
const NODE_NAME = /^(?=.{1,253}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/;

export function isNodeName(text: string): boolean {
  return NODE_NAME.test(text);
}

/** The name of a Node in a path; null: it is none. */
export function decodedName(text: string): string | null {
  try {
    const name = decodeURIComponent(text);
    return isNodeName(name) ? name : null;
  } catch {
    // An invalid percent escape: the caller reports it.
    return null;
  }
}

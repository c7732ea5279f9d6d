import { stringify } from 'yaml';

export interface KubeconfigParts {
  /** URL. */
  readonly server: string;
  /** PEM. */
  readonly ca: string;
  readonly token: string;
}

/** The text of a kubeconfig with one context, for who holds the token. */
export function kubeconfig({ server, ca, token }: KubeconfigParts): string {
  const name = 'test';
  return stringify({
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [{ name, cluster: { server, 'certificate-authority-data': btoa(ca) } }],
    users: [{ name, user: { token } }],
    contexts: [{ name, context: { cluster: name, user: name } }],
    'current-context': name,
  });
}

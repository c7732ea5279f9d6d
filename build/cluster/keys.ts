import { generateKeyPairSync, randomBytes } from 'node:crypto';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createAuthority } from '../../test/cluster/certificates.ts';
import { kubeconfig } from '../../test/cluster/cluster-files.ts';
import type { NodeAddresses } from './network.ts';

interface KeysOptions {
  readonly folder: string;
  readonly nodes: readonly NodeAddresses[];
  /** The API server's address on the network. */
  readonly address: string;
  /** Cluster IP of Service default/kubernetes. */
  readonly serviceAddress: string;
}

/** The users that speak to the API server by token, besides service accounts. */
const USERS: Readonly<Record<string, { user: string; group?: string }>> = {
  admin: { user: 'admin', group: 'system:masters' },
  'controller-manager': { user: 'system:kube-controller-manager' },
  scheduler: { user: 'system:kube-scheduler' },
  'kube-proxy': { user: 'system:kube-proxy' },
  carrier: { user: 'system:carrier' },
};

/** Files of a cluster's keys; paths. */
export interface Keys {
  path(name: string): string;
  /** One of USERS, or `kubelet-NODE`. */
  kubeconfig(name: string): string;
}

/**
 * Certificates, keys and kubeconfigs, as an installer of clusters would make them. They are good
 * for a day.
 */
export async function writeKeys({ folder, nodes, address, serviceAddress }: KeysOptions): Promise<Keys> {
  await mkdir(folder, { recursive: true });
  const path = (name: string): string => join(folder, name);
  const write = (name: string, text: string) => writeFile(path(name), text, { mode: 0o600 });
  const [ca, frontProxy] = await Promise.all([createAuthority('kubernetes'), createAuthority('front-proxy')]);
  const both = async (name: string, { certificate, key }: { certificate: string; key: string }) => {
    await write(`${name}.crt`, certificate);
    await write(`${name}.key`, key);
  };
  const service = ['kubernetes', 'kubernetes.default', 'kubernetes.default.svc'];
  const names = [address, serviceAddress, '127.0.0.1', ...service, 'kubernetes.default.svc.cluster.local'];
  await Promise.all([
    both('ca', ca),
    both('front-proxy-ca', frontProxy),
    both('apiserver', await ca.issue({ commonName: 'kube-apiserver', names, usage: 'server' })),
    both(
      'apiserver-kubelet-client',
      await ca.issue({
        organization: 'system:masters',
        commonName: 'kube-apiserver-kubelet-client',
        usage: 'client',
      }),
    ),
    both('front-proxy-client', await frontProxy.issue({ commonName: 'front-proxy-client', usage: 'client' })),
    ...nodes.map(async ({ name, v4, v6 }) =>
      both(`kubelet-${name}`, await ca.issue({ commonName: name, names: [name, v4, v6], usage: 'server' })),
    ),
  ]);
  const { privateKey, publicKey } = generateKeyPairSync('ec', {
    namedCurve: 'P-256',
    privateKeyEncoding: { type: 'sec1', format: 'pem' },
    publicKeyEncoding: { type: 'spki', format: 'pem' },
  });
  await write('service-account.key', privateKey);
  await write('service-account.pub', publicKey);

  const kubelets = nodes.map(({ name }) => [
    `kubelet-${name}`,
    { user: `system:node:${name}`, group: 'system:nodes' },
  ]) satisfies [string, { user: string; group: string }][];
  const lines: string[] = [];
  for (const [name, { user, group }] of [...Object.entries(USERS), ...kubelets]) {
    const token = randomBytes(16).toString('hex');
    lines.push([token, user, user, ...(group === undefined ? [] : [`"${group}"`])].join(','));
    const server = `https://${address}:6443`;
    await write(`${name}.kubeconfig`, kubeconfig({ server, ca: ca.certificate, token }));
  }
  await write('tokens.csv', `${lines.join('\n')}\n`);
  return { path, kubeconfig: (name) => path(`${name}.kubeconfig`) };
}

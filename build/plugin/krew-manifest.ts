import { stringify } from 'yaml';
import { VERSION } from '../../lib/process/version.ts';
import type { Archive } from './archive.ts';

/**
 * plugin.yaml, by which `kubectl krew install --manifest` installs the archives.
 *
 * @param from where the archives are: the URL of a folder
 */
export function krewManifest(archives: readonly Archive[], from: string): string {
  return stringify({
    apiVersion: 'krew.googlecontainertools.github.com/v1alpha2',
    kind: 'Plugin',
    metadata: { name: 'nodewall' },
    spec: {
      version: `v${VERSION}`,
      shortDescription: 'Ask and steer a host firewall of nodes',
      description: [
        'Says what nodewall, a host firewall for Kubernetes nodes, does in a cluster: what is wrong,',
        'which rule decides a connection, what is dropped now, which flows there are. Steers',
        'rollouts, and checks policies before they are applied.',
      ].join(' '),
      caveats:
        'nodewall must be installed in the cluster; who asks needs ClusterRole nodewall-view. ' +
        'On Linux it needs glibc 2.28, libstdc++ and libatomic.',
      platforms: archives.map(({ platform: { os, arch, executable }, name, sha256 }) => ({
        selector: { matchLabels: { os, arch } },
        uri: new URL(name, from.endsWith('/') ? from : `${from}/`).href,
        sha256,
        bin: executable,
      })),
    },
  });
}

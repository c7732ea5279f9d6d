import { join } from 'node:path';
import { buildCluster } from '../../test/cluster/build.ts';
import { cached } from '../programs/cache.ts';
import { unpackDebianPackage } from '../programs/command.ts';
import { buildGoProgram } from '../programs/go.ts';
import { containerdPrograms } from './containerd.ts';

/** The programs of the cluster's machines that are no part of this repository. */
export interface Programs {
  /**
   * Path; its first argument names the program to be: etcd, kube-apiserver, kubelet, …
   * (test/cluster/main.go).
   */
  readonly kubernetes: string;
  /** Path; static. */
  readonly coredns: string;
  /** Folder of containerd, ctr and containerd-shim-runc-v2. */
  readonly containerd: string;
  /** Root of unpacked Debian packages: usr/sbin/runc, usr/lib/cni, usr/bin/tini-static. */
  readonly debian: string;
}

const PACKAGES = ['containerd', 'runc', 'containernetworking-plugins', 'tini'] as const;

/** From the cache, or made: about twelve minutes of two cores, once. */
export async function buildPrograms(): Promise<Programs> {
  const kubernetes = await buildCluster();
  const debian = await cached('debian', PACKAGES.join('-'), async (fresh) => {
    process.stderr.write(`realcluster: unpacking ${PACKAGES.join(', ')}\n`);
    for (const name of PACKAGES) await unpackDebianPackage(name, fresh);
  });
  const containerd = await containerdPrograms(debian);
  const coredns = await buildGoProgram({
    name: 'coredns',
    source: join(import.meta.dirname, 'coredns'),
    files: ['main.go'],
    takes: 'some minutes',
  });
  return { kubernetes, containerd, debian, coredns };
}

if (import.meta.main) await buildPrograms();

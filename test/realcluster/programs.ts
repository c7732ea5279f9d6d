import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { buildCluster } from '../cluster/build.ts';
import { cached } from '../cluster/cache.ts';
import { output } from '../cluster/command.ts';
import { unpackDebianPackage } from '../cluster/debian.ts';
import { findGo, goEnvironment } from '../cluster/go.ts';

/** What the cluster's machines run that is no part of this repository. */
export interface Programs {
  /**
   * Path; its first argument names the program to be: etcd, kube-apiserver, kubelet, …
   * (test/cluster/main.go).
   */
  readonly kubernetes: string;
  /** Path; static. */
  readonly coredns: string;
  /**
   * Root of unpacked Debian packages: usr/bin/containerd, usr/sbin/runc, usr/lib/cni,
   * usr/bin/tini-static.
   */
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
  return { kubernetes, debian, coredns: await buildCoreDns() };
}

async function buildCoreDns(): Promise<string> {
  const source = join(import.meta.dirname, 'coredns');
  const go = await findGo();
  const key = createHash('sha256').update(`${go.version} ${process.arch}`);
  for (const name of ['go.mod', 'go.sum', 'main.go']) key.update(await readFile(join(source, name)));
  const folder = await cached('coredns', key.digest('hex').slice(0, 16), async (fresh) => {
    process.stderr.write('realcluster: building CoreDNS, once: some minutes\n');
    const flags = ['-buildvcs=false', '-trimpath', '-ldflags', '-s -w', '-o', join(fresh, 'coredns')];
    await output(['nice', '-n', '10', go.command, 'build', ...flags, '.'], {
      cwd: source,
      env: goEnvironment({ CGO_ENABLED: '0' }),
    });
  });
  return join(folder, 'coredns');
}

if (import.meta.main) await buildPrograms();

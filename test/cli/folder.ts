import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { policy, tcp } from '../kernel/manifests.ts';

/** A throw-away folder with a manifests directory in it. */
export interface Folder {
  readonly path: string;
  readonly manifests: string;
  readonly stateDir: string;
  /** Writes a manifest: objects as JSON, or text. Returns its path. */
  write(name: string, content: readonly object[] | string): Promise<string>;
  /** Beside the manifests. */
  writeBeside(name: string, text: string): Promise<string>;
  close(): Promise<void>;
}

export async function createFolder(): Promise<Folder> {
  const path = await mkdtemp(join(tmpdir(), 'nodewall-cli-'));
  const manifests = join(path, 'manifests');
  await mkdir(manifests);
  const put = async (file: string, text: string) => {
    await mkdir(dirname(file), { recursive: true });
    await writeFile(file, text);
    return file;
  };
  return {
    path,
    manifests,
    stateDir: join(path, 'state'),
    write(name, content) {
      const text =
        typeof content === 'string'
          ? content
          : JSON.stringify({ apiVersion: 'v1', kind: 'List', items: content });
      return put(join(manifests, name), text);
    },
    writeBeside: (name, text) => put(join(path, name), text),
    close: () => rm(path, { recursive: true, force: true }),
  };
}

export const NODE = {
  apiVersion: 'v1',
  kind: 'Node',
  metadata: { name: 'cp-1', labels: { role: 'control-plane' } },
  status: { addresses: [{ type: 'InternalIP', address: '192.0.2.11' }] },
};

/** Drops TCP to a port. */
export function closing(name: string, port: number): object {
  return policy(name, { ingress: [{ name: 'close', action: 'Drop', ports: [tcp(port)] }] });
}

/** Three rules in three tiers, and one that is open to the failsafe. */
export const POLICIES = [
  policy('allow-api', {
    tier: 'securityops',
    priority: 10,
    ingress: [
      {
        name: 'from-office',
        action: 'Allow',
        from: [{ ipBlock: { cidr: '10.0.0.0/24' } }],
        ports: [tcp(6443)],
      },
      { name: 'no-ssh', action: 'Reject', ports: [tcp(22)] },
    ],
  }),
  policy('deny', {
    ingress: [{ name: 'all', action: 'Drop' }],
    egress: [{ name: 'smtp', action: 'Drop', ports: [tcp(25)] }],
  }),
];

/** Its priority is out of range. */
export const INVALID = policy('broken', { priority: 0, ingress: [{ name: 'x', action: 'Drop' }] });

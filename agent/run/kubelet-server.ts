import { readFile, stat } from 'node:fs/promises';
import { asFields, asList, type FieldMap } from '../../apis/schema/json-schema.ts';
import { parseYaml } from '../../apis/validate/yaml-document.ts';

/**
 * The kubelet's kubeconfig as distributions place it: kubeadm; managed clusters; k3s, RKE2;
 * OpenShift.
 */
const USUAL = [
  '/etc/kubernetes/kubelet.conf',
  '/var/lib/kubelet/kubeconfig',
  '/var/lib/rancher/k3s/agent/kubelet.kubeconfig',
  '/var/lib/rancher/rke2/agent/kubelet.kubeconfig',
  '/etc/kubernetes/kubeconfig',
];
/** Bytes; certificates may be in the file. */
const LONGEST = 1024 * 1024;

/**
 * The API server that this machine's kubelet uses, from its kubeconfig; null: there is no such
 * file, or it isn't readable. Throws if it names no server.
 * @param path '': the usual places
 */
export async function kubeletServer(path: string): Promise<URL | null> {
  for (const one of path === '' ? USUAL : [path]) {
    const text = await readIfThere(one);
    if (text === null) continue;
    const server = serverOf(text);
    if (server !== null) return server;
    throw new Error(`${one}: is not a kubeconfig with the https:// server of its current context`);
  }
  if (path !== '') throw new Error(`${path}: cannot be read`);
  return null;
}

async function readIfThere(path: string): Promise<string | null> {
  try {
    const { size } = await stat(path);
    return size > LONGEST ? null : await readFile(path, 'utf8');
  } catch {
    // Absent or not readable: most machines have one of the files at most.
    return null;
  }
}

/** The server of the current context's cluster; of the only cluster if no context is current. */
function serverOf(text: string): URL | null {
  const parsed = parseYaml(text);
  const { clusters, contexts, ...config } = ('value' in parsed ? asFields(parsed.value) : null) ?? {};
  const context = asFields(named(contexts, config['current-context'])?.context);
  const cluster = named(clusters, context?.cluster) ?? onlyOne(clusters);
  const server = asFields(cluster?.cluster)?.server;
  const url = typeof server === 'string' ? URL.parse(server) : null;
  return url?.protocol === 'https:' ? url : null;
}

function named(list: unknown, name: unknown): FieldMap | null {
  return asFields(asList(list).find((item) => asFields(item)?.name === name));
}

function onlyOne(list: unknown): FieldMap | null {
  const [first, ...others] = asList(list);
  return others.length === 0 ? asFields(first) : null;
}

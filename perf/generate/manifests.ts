import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { stringify } from 'yaml';
import {
  type ClusterSize,
  extraPods,
  namespaces,
  nodes,
  type PolicyOptions,
  pods,
  policies,
} from './cluster.ts';

interface ManifestOptions extends PolicyOptions {
  /** One policy a file, or all in one. */
  readonly policyFiles?: 'each' | 'one';
  /** Of the file with the extra pods. */
  readonly podFormat?: 'json' | 'yaml';
  /** Addresses of the Node under test. */
  readonly nodeAddresses?: readonly string[];
}

/**
 * Writes a manifests directory as an administrator would have it: YAML by hand, the cluster's pods
 * as one List.
 */
export async function writeManifests(
  folder: string,
  size: ClusterSize,
  {
    policyFiles = 'each',
    podFormat = 'json',
    nodeAddresses = ['10.90.0.10'],
    ...options
  }: ManifestOptions = {},
): Promise<void> {
  await mkdir(folder, { recursive: true });
  const write = (name: string, text: string) => writeFile(join(folder, name), text);
  await write('nodes.yaml', yamlText(nodes(size, nodeAddresses)));
  await write('namespaces.yaml', yamlText(namespaces(size)));
  await write('pods.json', listText(pods(size)));
  if (size.extraPods > 0) {
    const crowd = extraPods(size);
    await write(`crowd.${podFormat}`, podFormat === 'json' ? listText(crowd) : yamlText(crowd));
  }
  const all = policies(size, options);
  if (policyFiles === 'one') await write('policies.yaml', yamlText(all));
  else for (const [i, one] of all.entries()) await write(policyFile(i), yamlText([one]));
}

/** Where a policy is when each has a file of its own. */
export function policyFile(index: number): string {
  return `policy-${String(index).padStart(4, '0')}.yaml`;
}

/** Documents one after the other. */
export function yamlText(objects: readonly object[]): string {
  return objects.map((object) => stringify(object, { aliasDuplicateObjects: false })).join('---\n');
}

/** As `kubectl get -o json` prints it, one object a line instead of many. */
export function listText(objects: readonly object[]): string {
  const items = objects.map((object) => JSON.stringify(object)).join(',\n');
  return `{"apiVersion":"v1","kind":"List","items":[\n${items}\n]}\n`;
}

import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseDocument } from 'yaml';
import { type Config, DEFAULT_CONFIG } from '../../apis/config.ts';
import { parseConfig } from '../../apis/config-file.ts';
import type { NameTable } from '../../apis/names.ts';
import type { ClusterObject, ClusterObjects, Problem } from '../../apis/objects.ts';
import { claimedIdentity, identityOf } from '../../apis/validate/metadata.ts';
import { parseNames } from '../../cli/names.ts';
import { sameValue } from '../../controller/watch/keep-objects.ts';
import { loadManifests } from '../../controller/watch/manifests.ts';
import type { Fence } from '../docs/markdown.ts';
import type { Case } from './case.ts';

/** A case's inputs, read as the command line reads them. */
export interface Inputs {
  readonly objects: ClusterObjects;
  readonly problems: readonly Problem[];
  readonly config: Config;
  readonly names: NameTable;
  /** As they are written, for the oracle. */
  readonly raw: {
    readonly objects: readonly object[];
    readonly config: object;
    readonly names: Readonly<Record<string, readonly string[]>>;
  };
  readonly firstNode: string;
}

/** @param changes what happened to the objects and the configuration since */
export async function readInputs(
  { file, manifests, config: before, names }: Case,
  changes: readonly Fence[] = [],
): Promise<Inputs> {
  const config = changes.findLast(({ info }) => info === 'yaml config changed') ?? before;
  const documents = changed(
    manifests.flatMap(({ fence }) => documentsOf(fence)),
    changes,
    file,
  );
  const directory = await mkdtemp(join(tmpdir(), 'nodewall-case-'));
  try {
    for (const [i, { line, text }] of documents.entries()) {
      // Newlines in front, so that a problem names the line of the Markdown file.
      await writeFile(join(directory, `${i}.yaml`), '\n'.repeat(line) + text);
    }
    const parsed = config === null ? null : parseConfig('\n'.repeat(config.line) + config.text, file);
    if (parsed?.config === null) throw new Error(JSON.stringify(parsed.problems));
    const effective = parsed?.config ?? DEFAULT_CONFIG;
    const interfaceGroups = Object.keys(effective.interfaceGroups);
    const { egress: egressConfig, endpointsWithoutPods } = effective;
    const options = { interfaceGroups, egress: true, egressConfig, endpointsWithoutPods };
    const { objects, problems } = await loadManifests([directory], options);
    const raw = documents.map((document) => document.raw as Raw);
    return {
      objects,
      problems: problems.map((problem) => ({ ...problem, file })),
      config: effective,
      names: parseNames(names?.text ?? '', file),
      raw: { objects: raw, config: fenceValue(config), names: fenceValue(names) },
      firstNode: raw.find(({ kind }) => kind === 'Node')?.metadata?.name ?? '',
    };
  } finally {
    await rm(directory, { recursive: true });
  }
}

/** A document of a fence. */
interface Document {
  readonly text: string;
  /** Lines above it in the Markdown file. */
  readonly line: number;
  readonly raw: object;
  readonly identity: string;
}

function documentsOf(fence: Fence): Document[] {
  let line = fence.line;
  return fence.text.split(/^---\n/m).map((text) => {
    const raw = parseDocument(text).toJS() as object;
    const document = { text, line, raw, identity: claimedIdentity(raw).identity };
    line += text.split('\n').length;
    return document;
  });
}

/** Objects of `yaml changed` are added, or replace those of the same name. */
function changed(documents: readonly Document[], changes: readonly Fence[], file: string): Document[] {
  const result = [...documents];
  for (const fence of changes) {
    if (fence.info !== 'yaml changed' && fence.info !== 'yaml deleted') continue;
    for (const document of documentsOf(fence)) {
      const at = result.findIndex(({ identity }) => identity === document.identity);
      if (fence.info === 'yaml deleted') {
        if (at < 0) throw new Error(`${file}:${document.line + 1}: deletes what isn't there`);
        result.splice(at, 1);
      } else result.splice(at < 0 ? result.length : at, at < 0 ? 0 : 1, document);
    }
  }
  return result;
}

function fenceValue(fence: Fence | null): object & Readonly<Record<string, readonly string[]>> {
  return (fence === null ? null : parseDocument(fence.text).toJS()) ?? {};
}

interface Raw {
  readonly kind?: string;
  readonly metadata?: { readonly name?: string };
}

/**
 * The objects, with equal ones of the state before in their place: stage 1 keeps the same
 * JavaScript object for what did not change, and later stages take it for unchanged.
 */
export function keptFrom(before: ClusterObjects | null, now: ClusterObjects): ClusterObjects {
  const known = new Map(
    Object.values(before ?? {}).flatMap((list: readonly ClusterObject[]) =>
      list.map((object) => [identityOf(object), object] as const),
    ),
  );
  const kept = <T extends ClusterObject>(object: T): T => {
    const there = known.get(identityOf(object));
    return there !== undefined && sameValue(there, object) ? (there as T) : object;
  };
  return {
    nodes: now.nodes.map(kept),
    namespaces: now.namespaces.map(kept),
    pods: now.pods.map(kept),
    services: now.services.map(kept),
    endpointSlices: now.endpointSlices.map(kept),
    groups: now.groups.map(kept),
    tiers: now.tiers.map(kept),
    policies: now.policies.map(kept),
    guardrails: now.guardrails.map(kept),
    egressGateways: now.egressGateways.map(kept),
    egressPolicies: now.egressPolicies.map(kept),
    insideNetworks: now.insideNetworks.map(kept),
  };
}

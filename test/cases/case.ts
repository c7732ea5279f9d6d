import { type Fence, MarkdownError, parseMarkdown, type Section } from '../docs/markdown.ts';

/**
 * What a fence may be. Inputs hold for their section and the sections below it; the others say what
 * comes of them. `yaml` may name a file of the repository (`yaml deploy/examples/…`): the fence
 * shows that file.
 */
const INPUTS = ['yaml', 'yaml config', 'yaml names', 'yaml FILE'];
/** What happens next, in the order of the section: the outputs below say what comes of it. */
export const CHANGES = ['yaml changed', 'yaml deleted', 'yaml config changed', 'foreign'] as const;
export const OUTPUTS = [
  'problems',
  'objects',
  'compiled',
  'wire',
  'state',
  'nft',
  'iptables',
  'transaction',
  'change',
  'stream',
  'flows',
  'lint',
] as const;
type Output = (typeof OUTPUTS)[number];

/**
 * Parts of an output, in place of all of it; of `stream`, how the node was connected, of `flows`,
 * that they are those of egress gateways.
 */
const PARTS: Readonly<Partial<Record<Output, readonly string[]>>> = {
  nft: ['base', 'index', 'rules', 'sets', 'refuse'],
  iptables: ['sets', 'v4', 'v6'],
  stream: ['resumed', 'anew'],
  flows: ['egress'],
};

/** What happens between two outputs. */
export type Step = readonly Fence[];

/** A claim: its heading, what it is said of, and what is expected. */
export interface Case {
  readonly file: string;
  readonly line: number;
  /** The headings from the file's first one on. */
  readonly headings: readonly string[];
  /** In the order they stand in. */
  readonly manifests: readonly Manifest[];
  /** The agent's configuration; the innermost one counts. */
  readonly config: Fence | null;
  /** What fqdn peers resolve to, as in `--names FILE`; the innermost one counts. */
  readonly names: Fence | null;
  readonly expectations: readonly Expectation[];
}

export interface Manifest {
  readonly fence: Fence;
  /** The file of the repository that the fence shows. */
  readonly shows: string | null;
}

export interface Expectation {
  readonly output: Output;
  /** Null is the first Node of the manifests. */
  readonly node: string | null;
  readonly parts: readonly string[];
  /** What happened above it in its section. */
  readonly steps: readonly Step[];
  readonly fence: Fence;
}

/** The cases of a file. Throws on a fence that isn't known, and on a file that expects nothing. */
export function parseCases(file: string, text: string): Case[] {
  const cases: Case[] = [];
  const enclosing: Section[] = [];
  for (const section of parseMarkdown(file, text)) {
    while ((enclosing.at(-1)?.level ?? 0) >= section.level) enclosing.pop();
    enclosing.push(section);
    const expectations = expectationsOf(file, section);
    if (expectations.length === 0) continue;
    const inputs = enclosing.flatMap(({ fences }) => fences);
    cases.push({
      file,
      line: section.line,
      headings: enclosing.map(({ heading }) => heading),
      manifests: inputs.flatMap((fence) => manifest(fence) ?? []),
      config: inputs.findLast(({ info }) => info === 'yaml config') ?? null,
      names: inputs.findLast(({ info }) => info === 'yaml names') ?? null,
      expectations,
    });
  }
  if (cases.length === 0) throw new MarkdownError(`${file}:1: nothing in this file is checked`);
  return cases;
}

function expectationsOf(file: string, { fences }: Section): Expectation[] {
  const expectations: Expectation[] = [];
  let steps: readonly Step[] = [];
  let next: Fence[] = [];
  for (const fence of fences) {
    if (isChange(fence)) {
      next.push(fence);
      continue;
    }
    const found = expectation(file, fence);
    if (found === null) continue;
    if (next.length > 0) steps = [...steps, next];
    next = [];
    if (found.output === 'change' && steps.length === 0) {
      throw new MarkdownError(`${file}:${fence.line}: nothing above says what changes`);
    }
    expectations.push({ ...found, steps });
  }
  const [unseen] = next;
  if (unseen !== undefined)
    throw new MarkdownError(`${file}:${unseen.line}: nothing below says what it does`);
  return expectations;
}

function isChange({ info }: Fence): boolean {
  return CHANGES.some((change) => change === info);
}

function manifest(fence: Fence): Manifest | null {
  const [, shows] = /^yaml(?: (\S+\/\S+\.yaml))?$/.exec(fence.info) ?? [null, null];
  return shows === null ? null : { fence, shows: shows ?? null };
}

function expectation(file: string, fence: Fence): Omit<Expectation, 'steps'> | null {
  if (manifest(fence) !== null || /^yaml (config|names)$/.test(fence.info)) return null;
  const [name, ...words] = fence.info.split(' ').filter((word) => word !== '');
  const output = OUTPUTS.find((known) => known === name);
  if (output === undefined) {
    const known = [...INPUTS, ...CHANGES, ...OUTPUTS].join(', ');
    throw new MarkdownError(`${file}:${fence.line}: unknown fence "${fence.info}"; known: ${known}`);
  }
  let node: string | null = null;
  const parts: string[] = [];
  for (const word of words) {
    if (word.startsWith('node=')) node = word.slice(5);
    else if (PARTS[output]?.includes(word)) parts.push(word);
    else throw new MarkdownError(`${file}:${fence.line}: "${word}" says nothing to the fence ${output}`);
  }
  return { output, node, parts, fence };
}

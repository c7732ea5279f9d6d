import { type Fence, MarkdownError, parseMarkdown, type Section } from '../docs/markdown.ts';

/**
 * What a fence may be. Inputs hold for their section and the sections below it; the others say what
 * comes of them. `yaml` may name a file of the repository (`yaml deploy/examples/…`): the fence
 * shows that file.
 */
const INPUTS = ['yaml', 'yaml config', 'yaml names', 'yaml FILE'];
export const OUTPUTS = [
  'problems',
  'objects',
  'compiled',
  'wire',
  'state',
  'nft',
  'transaction',
  'flows',
] as const;
export type Output = (typeof OUTPUTS)[number];

/** Parts of the table, in place of all of it. */
export const NFT_PARTS = ['base', 'index', 'rules', 'sets', 'refuse'] as const;
export type NftPart = (typeof NFT_PARTS)[number];

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
  readonly parts: readonly NftPart[];
  readonly fence: Fence;
}

/** The cases of a file. Throws on a fence that isn't known, and on a file that expects nothing. */
export function parseCases(file: string, text: string): Case[] {
  const cases: Case[] = [];
  const enclosing: Section[] = [];
  for (const section of parseMarkdown(file, text)) {
    while ((enclosing.at(-1)?.level ?? 0) >= section.level) enclosing.pop();
    enclosing.push(section);
    const expectations = section.fences.flatMap((fence) => expectation(file, fence) ?? []);
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

function manifest(fence: Fence): Manifest | null {
  const [, shows] = /^yaml(?: (\S+\/\S+\.yaml))?$/.exec(fence.info) ?? [null, null];
  return shows === null ? null : { fence, shows: shows ?? null };
}

function expectation(file: string, fence: Fence): Expectation | null {
  if (manifest(fence) !== null || /^yaml (config|names)$/.test(fence.info)) return null;
  const [name, ...words] = fence.info.split(' ').filter((word) => word !== '');
  const output = OUTPUTS.find((known) => known === name);
  if (output === undefined) {
    const known = [...INPUTS, ...OUTPUTS].join(', ');
    throw new MarkdownError(`${file}:${fence.line}: unknown fence "${fence.info}"; known: ${known}`);
  }
  let node: string | null = null;
  const parts: NftPart[] = [];
  for (const word of words) {
    const part = NFT_PARTS.find((known) => known === word);
    if (word.startsWith('node=')) node = word.slice(5);
    else if (part !== undefined && output === 'nft') parts.push(part);
    else throw new MarkdownError(`${file}:${fence.line}: "${word}" says nothing to the fence ${output}`);
  }
  return { output, node, parts, fence };
}

import type { ValidateOptions } from '../../apis/validate/object.ts';
import { STANDARD_INPUT } from '../../apis/validate/problem.ts';
import { addBroken, emptyContent, type FileContent, type Reading, type ReceiveRaw } from './content.ts';
import { type FileBytes, readFileBytes, release } from './files.ts';
import { readJson } from './json-file.ts';
import { type DocumentCache, readYaml } from './yaml-file.ts';

export interface ReadFile {
  readonly content: FileContent;
  /** For the next time this file is read. */
  readonly cache: DocumentCache;
}

export const NO_CACHE: DocumentCache = new Map();

/**
 * A program that opens a file for writing first truncates it: an empty file is taken for
 * incomplete, not for one without objects.
 */
const EMPTY =
  'is empty; its last valid version stays in force. Delete the file, or leave only a comment in it, to remove its objects';

/** Reads one manifest file; never throws. */
export async function readManifest(path: string, options: ValidateOptions): Promise<FileContent> {
  return parseManifest(path, await readFileBytes(path), NO_CACHE, options).content;
}

/** Gives the objects of a file as they are written; never throws. */
export async function readRaw(path: string, receive: ReceiveRaw): Promise<FileContent> {
  return parseManifest(path, await readFileBytes(path), NO_CACHE, {}, receive).content;
}

/**
 * Parses the bytes of a file and releases them, or reports why there are none; by its name, the
 * file is JSON or YAML.
 */
export function parseManifest(
  path: string,
  read: FileBytes,
  cache: DocumentCache,
  options: ValidateOptions,
  receive?: ReceiveRaw,
): ReadFile {
  const content = emptyContent(path);
  if (!('bytes' in read)) {
    addBroken(content, read);
    return { content, cache: NO_CACHE };
  }
  if (read.bytes.length === 0) {
    addBroken(content, { reason: EMPTY, line: 0, severity: 'warning' });
    return { content, cache: NO_CACHE };
  }
  const reading: Reading = { content, options, interned: new Map(), receive };
  const text = read.bytes.toString('utf8');
  release(read);
  if (!isJson(path, text)) return { content, cache: readYaml(text, reading, cache) };
  readJson(text, reading);
  return { content, cache: NO_CACHE };
}

/**
 * Standard input has no name: JSON is what begins as kubectl and jq print an object, without the
 * separators of YAML.
 */
function isJson(path: string, text: string): boolean {
  if (path !== STANDARD_INPUT) return /\.json$/i.test(path);
  return /^\s*\{\s*"/.test(text) && !/^---/m.test(text);
}

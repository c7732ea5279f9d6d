import type { ValidateOptions } from '../../apis/validate/object.ts';
import { addBroken, emptyContent, type FileContent } from './content.ts';
import { readFileBytes } from './filetext.ts';
import { readJson } from './jsonfile.ts';
import { type DocumentCache, readYaml } from './yamlfile.ts';

export interface ReadFile {
  readonly content: FileContent;
  /** For the next reading of this file. */
  readonly cache: DocumentCache;
}

export const NO_CACHE: DocumentCache = new Map();

/** One manifest file; never throws. */
export async function readManifest(
  path: string,
  cache: DocumentCache,
  options: ValidateOptions,
): Promise<ReadFile> {
  const read = await readFileBytes(path);
  if ('bytes' in read) return parseManifest(path, read.bytes, cache, options);
  const content = emptyContent(path);
  addBroken(content, read);
  return { content, cache: NO_CACHE };
}

/** The same for text that is at hand; the file's name says whether it is JSON. */
export function parseManifest(
  path: string,
  bytes: Buffer,
  cache: DocumentCache,
  options: ValidateOptions,
): ReadFile {
  const content = emptyContent(path);
  if (/\.json$/i.test(path)) {
    readJson(bytes, content, options);
    return { content, cache: NO_CACHE };
  }
  return { content, cache: readYaml(bytes.toString('utf8'), content, cache, options) };
}

import { asFields, type FieldMap } from '../../../apis/schema/json-schema.ts';
import { reasonOfCode, WatchFailure } from './failure.ts';
import type { Resource } from './resources.ts';
import type { ApiAnswer } from './transport.ts';

/** An object as the API sends it, with its key and version. */
export interface RawObject {
  /** `NAMESPACE/NAME`, or `NAME`. */
  readonly key: string;
  readonly version: number;
  readonly raw: FieldMap;
}

/**
 * Sets kind and apiVersion from the resource, because the API omits them in the list items of
 * built-in resources.
 */
export function toRawObject(value: unknown, { kind, apiVersion }: Resource): RawObject {
  const raw = asFields(value);
  const metadata = asFields(raw?.metadata);
  if (raw === null || metadata === null) throw new WatchFailure('malformed', 'an object has no metadata');
  const { name, namespace, resourceVersion } = metadata;
  if (typeof name !== 'string' || name === '') {
    throw new WatchFailure('malformed', 'an object has no metadata.name');
  }
  const key = typeof namespace === 'string' && namespace !== '' ? `${namespace}/${name}` : name;
  return { key, version: toVersion(resourceVersion), raw: { ...raw, apiVersion, kind } };
}

/**
 * Versions of one resource are compared as numbers: they are etcd's revisions, and since Kubernetes
 * 1.35 the API guarantees it (KEP-5504, Comparable Resource Version). Throws a WatchFailure if the
 * value is not a number.
 */
export function toVersion(value: unknown): number {
  if (typeof value === 'string' && /^[1-9]\d{0,15}$/.test(value)) {
    const version = Number(value);
    if (Number.isSafeInteger(version)) return version;
  }
  throw new WatchFailure('malformed', `resourceVersion ${JSON.stringify(value)} is not a number`);
}

/**
 * Throws a WatchFailure for an unsuccessful response, with the message of its metav1.Status or the
 * first 200 characters of its body.
 */
export async function throwRefusal({ status, retryAfter, chunks }: ApiAnswer): Promise<never> {
  const text = await textOf(chunks, MOST_OF_REFUSAL);
  let said: unknown;
  try {
    said = JSON.parse(text);
  } catch {
    // A proxy's error page, or no body: the status alone is reported.
  }
  const { kind, message } = asFields(said) ?? {};
  if (kind === 'Status') throw statusFailure(said, status, retryAfter);
  const words = typeof message === 'string' ? message : text.slice(0, 200).trim();
  throw new WatchFailure(reasonOfCode(status), `${status}${words === '' ? '' : `: ${words}`}`, {
    retryAfter,
  });
}

const MOST_OF_REFUSAL = 64 * 1024;

/** Converts a metav1.Status: the body of a response, or the object of an ERROR event. */
export function statusFailure(
  value: unknown,
  status: number | null = null,
  retryAfter: number | null = null,
): WatchFailure {
  const { code, reason, message, details } = asFields(value) ?? {};
  const { retryAfterSeconds } = asFields(details) ?? {};
  const number = status ?? (typeof code === 'number' ? code : 0);
  const isExpired = reason === 'Expired' || reason === 'Gone';
  const words = [number, reason, message].filter((part) => part !== undefined && part !== '').join(' ');
  const wait = retryAfter ?? (typeof retryAfterSeconds === 'number' ? retryAfterSeconds * 1000 : null);
  return new WatchFailure(isExpired ? 'expired' : reasonOfCode(number), words, { retryAfter: wait });
}

/**
 * A body as text, truncated to `most` bytes. Unlike readBody it reads on to the end, so that the
 * connection can be used again.
 */
async function textOf(chunks: AsyncIterable<Buffer>, most: number): Promise<string> {
  const kept: Buffer[] = [];
  let size = 0;
  for await (const chunk of chunks) {
    if (size < most) kept.push(chunk);
    size += chunk.length;
  }
  return Buffer.concat(kept).subarray(0, most).toString();
}

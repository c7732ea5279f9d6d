import { asFields } from '../../../apis/schema/json-schema.ts';
import { WatchFailure } from './failure.ts';
import { type RawObject, statusFailure, toRawObject, toVersion } from './raw-object.ts';
import type { Resource } from './resources.ts';

/** One line of a watch (metav1.WatchEvent). */
type WatchEvent =
  | { readonly kind: 'put' | 'delete'; readonly object: RawObject }
  | { readonly kind: 'bookmark'; readonly version: number };

/** Throws a WatchFailure for an ERROR event, and for anything that is not an event. */
export function parseWatchEvent(line: string, resource: Resource): WatchEvent {
  let value: unknown;
  try {
    value = JSON.parse(line);
  } catch (cause) {
    throw new WatchFailure('malformed', `an event is not valid JSON: ${(cause as Error).message}`, { cause });
  }
  const { type, object } = asFields(value) ?? {};
  switch (type) {
    case 'ADDED':
    case 'MODIFIED':
      return { kind: 'put', object: toRawObject(object, resource) };
    case 'DELETED':
      return { kind: 'delete', object: toRawObject(object, resource) };
    case 'BOOKMARK':
      return { kind: 'bookmark', version: toVersion(asFields(asFields(object)?.metadata)?.resourceVersion) };
    case 'ERROR':
      throw statusFailure(object);
    default:
      throw new WatchFailure('malformed', `unknown type of event: ${JSON.stringify(type)}`);
  }
}

import { compiler } from '../../controller/compile/compile.ts';
import { createHub, type Hub } from '../../controller/publish/hub.ts';
import { type Line, linePrefix } from '../../controller/publish/line.ts';
import type { Expectation } from './case.ts';
import type { Inputs } from './inputs.ts';
import { keptFrom } from './kept-objects.ts';

/**
 * What the controller sends to the node after the last step: over a connection that has been open
 * since before (`stream`), over one that resumes from the message before the step (`resumed`), or
 * over one that begins (`anew`, or no step at all).
 */
export function streamText({ node, parts, steps }: Expectation, history: readonly Inputs[]): string {
  const compile = compiler();
  const hub = createHub({ gate: true, epoch: 'life' });
  const name = node ?? history[0]?.firstNode ?? '';
  let stream: Stream | null = null;
  let objects: Inputs['objects'] | null = null;
  for (const [i, inputs] of history.entries()) {
    if (i === history.length - 1 && parts.length > 0) stream?.close();
    stream?.take();
    objects = keptFrom(objects, inputs.objects);
    hub.publish(compile(objects));
    stream ??= openStream(hub, name, null);
  }
  if (stream === null) return '';
  if (parts.includes('resumed')) return openStream(hub, name, stream.revision()).take();
  if (parts.includes('anew') || steps.length === 0) return openStream(hub, name, null).take();
  return stream.take();
}

interface Stream {
  /** The messages since the last call. */
  take(): string;
  /** Of the last message. */
  revision(): string;
  close(): void;
}

function openStream(hub: Hub, node: string, resourceVersion: string | null): Stream {
  let sequence = 0;
  let revision = '';
  let text = '';
  const { close } = hub.watch(node, resourceVersion, (lines: readonly Line[]) => {
    for (const line of lines) {
      ({ revision } = line);
      text += `${pretty(JSON.parse(linePrefix(++sequence, line) + line.body.toString()))}\n`;
    }
  });
  return {
    take() {
      const taken = text;
      text = '';
      return taken;
    },
    revision: () => revision,
    close,
  };
}

const WIDTH = 110;

/** JSON on one line where that is short enough; else each item or field has a line. */
function pretty(value: unknown, indent = ''): string {
  const compact = JSON.stringify(value);
  if (indent.length + compact.length <= WIDTH || typeof value !== 'object' || value === null) return compact;
  const deeper = `${indent}  `;
  const [open, close] = Array.isArray(value) ? '[]' : '{}';
  const items = Object.entries(value).map(([key, item]) => {
    const name = Array.isArray(value) ? '' : `${JSON.stringify(key)}: `;
    return `${deeper}${name}${pretty(item, deeper)}`;
  });
  return `${open}\n${items.join(',\n')}\n${indent}${close}`;
}

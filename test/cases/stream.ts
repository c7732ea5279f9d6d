import { compiler } from '../../controller/compile/compile.ts';
import { Hub } from '../../controller/publish/hub.ts';
import { type Line, linePrefix } from '../../controller/publish/messages.ts';
import type { Expectation } from './case.ts';
import { type Inputs, keptFrom } from './inputs.ts';

/**
 * What the controller sends to the node after the last step: over a connection that has been open
 * since before (`stream`); over one that resumes from the bookmark before the step, from the same
 * controller (`resumed`) or from one that has just started (`anew`). Without a step: what a node
 * gets that connects for the first time.
 */
export function streamText({ node, parts }: Expectation, history: readonly Inputs[]): string {
  const compile = compiler();
  const hub = new Hub({ gate: true, epoch: 'life' });
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
  if (parts.length === 0) return stream.take();
  const other = parts.includes('anew') ? new Hub({ gate: true, epoch: 'next' }) : hub;
  if (other !== hub && objects !== null) other.publish(compile(objects));
  return openStream(other, name, stream.revision()).take();
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

const WIDTH = 120;

/** JSON on as few lines as fit in the width; what is too long for one line is indented. */
function pretty(value: unknown, indent = ''): string {
  const line = onLine(value);
  if (indent.length + line.length <= WIDTH || typeof value !== 'object' || value === null) return line;
  const deeper = `${indent}  `;
  const [open, close] = Array.isArray(value) ? '[]' : '{}';
  const lines: string[] = [];
  for (const [key, item] of Object.entries(value)) {
    const name = Array.isArray(value) ? '' : `${JSON.stringify(key)}: `;
    const text = `${name}${pretty(item, deeper)}`;
    const last = lines.at(-1);
    const joined = `${last}, ${text}`;
    if (last === undefined || text.includes('\n') || last.includes('\n') || joined.length + 3 > WIDTH) {
      lines.push(text);
    } else lines[lines.length - 1] = joined;
  }
  return `${open}\n${lines.map((text) => deeper + text).join(',\n')}\n${indent}${close}`;
}

function onLine(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(onLine).join(', ')}]`;
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  const fields = Object.entries(value).map(([key, item]) => `${JSON.stringify(key)}: ${onLine(item)}`);
  return `{ ${fields.join(', ')} }`;
}

import { html, nothing, type TemplateResult } from 'lit';
import { toHash } from '../data/route.ts';

/** A row's facts of a flow. */
interface KnownFlow {
  readonly direction: string;
  readonly peer: string;
  readonly traffic?: string;
  readonly protocol: string | number;
  readonly port: number | null;
}

/** To the page Explain, with a row's flow; nothing where the peer stands for many addresses. */
export function explainLink(flow: KnownFlow, node: string | undefined): TemplateResult | typeof nothing {
  const { direction, peer, traffic, protocol, port } = flow;
  if (peer.includes('/') || node === undefined) return nothing;
  const value = {
    direction,
    [direction === 'ingress' ? 'src' : 'dst']: peer,
    protocol,
    ...(port === null ? {} : { dstPort: port }),
    ...(traffic === 'NodePort' ? { traffic } : {}),
  };
  return flowLink(value, node, `${peer} on ${node}`);
}

/** To the page Explain, with a flow as `nodewall explain --flow` takes it. */
export function flowLink(flow: object, node: string, about: string): TemplateResult {
  return html`<a href=${toHash('explain', { node, flow: JSON.stringify(flow) })} aria-label=${`Explain ${about}`}
    >Explain</a
  >`;
}

import { html, nothing, type TemplateResult } from 'lit';

/** Where the reader is: `#/PAGE?PARAMETERS` of the address, so that links to it can be sent. */
const PAGES = ['in-force', 'drops', 'explain', 'preview', 'audit', 'rollouts', 'lint'] as const;
export type PageName = (typeof PAGES)[number];

export interface PageRoute {
  readonly page: PageName;
  readonly parameters: URLSearchParams;
}

/** The first page for whatever names none. */
export function toPageRoute(hash: string): PageRoute {
  const [path = '', query = ''] = hash.replace(/^#\/?/, '').split('?', 2);
  const page = PAGES.find((name) => name === path) ?? PAGES[0];
  return { page, parameters: new URLSearchParams(query) };
}

/** Parameters that are empty are left out. */
export function toHash(page: PageName, parameters: Readonly<Record<string, string>> = {}): string {
  const query = new URLSearchParams(Object.entries(parameters).filter(([, value]) => value !== ''));
  return query.size === 0 ? `#/${page}` : `#/${page}?${query}`;
}

/** A row's facts of a flow. */
interface KnownFlow {
  readonly direction: string;
  readonly peer: string;
  readonly traffic?: string;
  readonly protocol: string | number;
  readonly port?: number;
}

/** To the page Explain, with a row's flow; nothing where the peer stands for many addresses. */
export function explainLink(flow: KnownFlow, node: string | undefined): TemplateResult | typeof nothing {
  const { direction, peer, traffic, protocol, port } = flow;
  if (peer.includes('/') || node === undefined) return nothing;
  const value = {
    direction,
    [direction === 'ingress' ? 'src' : 'dst']: peer,
    protocol,
    ...(port === undefined ? {} : { dstPort: port }),
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

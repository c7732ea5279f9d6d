/** Events for logs and metrics. */
export type ServerEvent =
  | { readonly kind: 'failed'; readonly path: string; readonly error: unknown }
  | { readonly kind: 'watching'; readonly node: string; readonly resourceVersion: string | null }
  | { readonly kind: 'ended'; readonly node: string; readonly reason: string };

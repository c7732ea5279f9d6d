/** Fields that may be undefined in T are absent where they are. */
type Present<T> = {
  [K in keyof T as undefined extends T[K] ? never : K]: T[K];
} & { [K in keyof T as undefined extends T[K] ? K : never]?: Exclude<T[K], undefined> };

/** The fields that are not undefined, where a type or document has a field or lacks it. */
export function present<T extends object>(fields: T): Present<T> {
  for (const key in fields) if (fields[key] === undefined) return withoutUndefined(fields);
  return fields as unknown as Present<T>;
}

function withoutUndefined<T extends object>(fields: T): Present<T> {
  const kept: Record<string, unknown> = {};
  for (const key in fields) if (fields[key] !== undefined) kept[key] = fields[key];
  return kept as Present<T>;
}

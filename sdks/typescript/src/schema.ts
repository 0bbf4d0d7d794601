// Standard Schema (https://standardschema.dev): the interface that zod, valibot, arktype and others share.

export interface StandardSchema<Input = unknown, Output = Input> {
  readonly "~standard": {
    readonly version: 1;
    readonly vendor: string;
    readonly validate: (value: unknown) => SchemaResult<Output> | Promise<SchemaResult<Output>>;
    readonly types?: { readonly input: Input; readonly output: Output } | undefined;
  };
}

export type SchemaResult<Output> =
  | { readonly value: Output; readonly issues?: undefined }
  | { readonly issues: ReadonlyArray<SchemaIssue> };

export interface SchemaIssue {
  readonly message: string;
  readonly path?: ReadonlyArray<PropertyKey | { readonly key: PropertyKey }> | undefined;
}

/** The payload is not what its schema says. */
export class PayloadError extends Error {
  override name = "PayloadError";
}

/** The value as the schema gives it. Throws `PayloadError`. */
export async function validated<T>(schema: StandardSchema<unknown, T>, value: unknown): Promise<T> {
  const result = await schema["~standard"].validate(value);
  if (result.issues) throw new PayloadError(result.issues.map(issueText).join("; "));
  return result.value;
}

function issueText(issue: SchemaIssue): string {
  const keys = (issue.path ?? []).map((part) => String(typeof part === "object" ? part.key : part));
  return keys.length ? `${keys.join(".")}: ${issue.message}` : issue.message;
}

// The journey with the client of oapi-codegen.
package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"time"

	"journey/api"

	"github.com/google/uuid"
)

func check(holds bool, step string) {
	if !holds {
		fmt.Fprintln(os.Stderr, "failed:", step)
		os.Exit(1)
	}
	fmt.Println(step)
}

func must[T any](value T, err error) T {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return value
}

func client(url, token string) *api.ClientWithResponses {
	bearer := func(_ context.Context, request *http.Request) error {
		request.Header.Set("Authorization", "Bearer "+os.Getenv(token))
		return nil
	}
	return must(api.NewClientWithResponses(os.Getenv(url), api.WithRequestEditorFn(bearer)))
}

func main() {
	ctx := context.Background()
	project := uuid.MustParse(os.Getenv("PROJECT"))
	reader, writer := client("AMPOULE_URL", "READ_TOKEN"), client("AMPOULE_URL", "WRITE_TOKEN")

	injected := must(reader.SecretsInjectWithResponse(ctx, &api.SecretsInjectParams{ProjectId: project, Environment: "development"}))
	check(injected.JSON200.Values["DATABASE_URL"] == "postgres://db", "read an environment")

	capabilities := must(reader.CapabilitiesReadWithResponse(ctx))
	check(capabilities.JSON200.Limits.ExpectedVersion == 9007199254740991, "read 64 bits")

	var items []api.SecretListItem
	page, more := 1, true
	for more {
		size := 2
		params := &api.SecretsListParams{ProjectId: project, Environment: "development", Page: &page, PageSize: &size}
		answer := must(reader.SecretsListWithResponse(ctx, params)).JSON200
		items, more, page = append(items, answer.Items...), answer.HasMore, page+1
	}
	check(len(items) == 5 && page == 4, "paged")

	value, kind := "x", api.Literal
	body := api.CreateSecret{ProjectId: project, Environment: "development", Key: "HOST", Value: &value, Kind: &kind}
	forbidden := must(reader.SecretsCreateWithResponse(ctx, &api.SecretsCreateParams{}, body)).JSON403
	check(forbidden.Code == "API_TOKEN_READ_ONLY", "met a typed 403")

	exists := must(writer.SecretsCreateWithResponse(ctx, &api.SecretsCreateParams{}, body)).JSON409
	version := int64(999)
	update := api.UpdateSecret{Value: &value, ExpectedVersion: &version}
	conflict := must(writer.SecretsUpdateWithResponse(ctx, items[0].Id, update)).JSON409
	check(exists.Code == "SECRET_ALREADY_EXISTS" && *conflict.CurrentVersion == 1, "met a typed 409")

	var limited *api.TooManyRequestsError
	for tries := 0; tries < 2000 && limited == nil; tries++ {
		limited = must(reader.ProjectsListWithResponse(ctx)).JSON429
	}
	time.Sleep(time.Duration(*limited.RetryAfterSeconds) * time.Second)
	check(must(reader.ProjectsListWithResponse(ctx)).JSON200 != nil, "waited out a 429")

	later := client("LATER_URL", "WRITE_TOKEN")
	listed := must(later.SecretsListWithResponse(ctx, &api.SecretsListParams{ProjectId: project, Environment: "development"}))
	refused := must(later.SecretsCreateWithResponse(ctx, &api.SecretsCreateParams{}, body))
	check(listed.JSON200.Items[0].Kind == "later-kind" && refused.JSON409.Code == "LATER_CODE", "read a later release")
	known := must(later.IdentityVerifyWithResponse(ctx)).JSON200
	plan := must(later.CapabilitiesReadWithResponse(ctx)).JSON200.Plan
	scopes := *known.McpScopes
	check(fmt.Sprint(*plan) == "later-plan" && *known.AccessLevel == "later-level" && scopes[len(scopes)-1] == "later:scope", "read a later plan, level and scope")
}
